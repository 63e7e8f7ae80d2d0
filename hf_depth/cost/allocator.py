"""How the C library hands memory back, which decides many comparisons on a CPU."""

import ctypes
import platform

# From glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Let glibc keep the memory of large tensors for the next ones, and not give it back and page it in again.

    It holds for the whole process and cannot be undone, so it is for programs to call and not for libraries, before
    the first tensors are made. From a shell, `MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=2147483647` does the same.

    Returns:
        Whether it was done; elsewhere than on glibc it is not.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL("libc.so.6")
    return bool(libc.mallopt(M_MMAP_MAX, 0) and libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1))

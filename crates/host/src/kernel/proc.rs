//! Files of `/proc`, read without allocating: in signal handlers.
// Raw system calls.
#![allow(unsafe_code)]

/// Reads the beginning of `/proc/PID/NAME` into `room` and returns it. Async-signal-safe.
pub(crate) fn read<'r>(pid: i32, name: &[u8], room: &'r mut [u8]) -> Option<&'r [u8]> {
    let mut path = [0_u8; 48];
    let mut digits = [0_u8; 10];
    let (mut count, mut left) = (0, u32::try_from(pid).ok()?);
    loop {
        digits[count] = b'0' + (left % 10) as u8;
        (count, left) = (count + 1, left / 10);
        if left == 0 {
            break;
        }
    }
    digits[..count].reverse();
    let mut len = 0;
    for piece in [b"/proc/", &digits[..count], b"/", name, b"\0"] {
        path.get_mut(len..len + piece.len())?.copy_from_slice(piece);
        len += piece.len();
    }
    // SAFETY: the path ends with a zero byte; the kernel writes no more than there is room for.
    let got = unsafe {
        let fd = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return None;
        }
        let got = libc::read(fd, room.as_mut_ptr().cast(), room.len());
        libc::close(fd);
        got
    };
    room.get(..usize::try_from(got).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_the_library_reads_them() {
        let mut room = [0; 4096];
        let pid = std::process::id();
        let name = std::fs::read(format!("/proc/{pid}/comm")).expect("own name");
        assert_eq!(read(pid as i32, b"comm", &mut room), Some(name.as_slice()));
        assert_eq!(read(pid as i32, b"no such file", &mut room), None);
        assert_eq!(read(-1, b"comm", &mut room), None);
        assert_eq!(read(1, &[b'x'; 60], &mut room), None);
    }
}

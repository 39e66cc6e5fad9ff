//! A terminal of a test's own.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The side of a terminal where people are.
pub(crate) struct Pty {
    pub(crate) keyboard: File,
    name: String,
}

impl Pty {
    /// One of so many columns and lines.
    pub(crate) fn new(size: (u16, u16)) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let pty = Self {
            keyboard: File::from(master),
            name: name.into_string().expect("a path"),
        };
        pty.resize(size);
        pty
    }

    pub(crate) fn resize(&self, (columns, lines): (u16, u16)) {
        let size = Winsize {
            ws_col: columns,
            ws_row: lines,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.keyboard, size).expect("a size");
    }

    /// A stream of the command that runs there.
    pub(crate) fn stream(&self) -> Stdio {
        let mut options = File::options();
        let options = options.read(true).write(true);
        let options = options.custom_flags(OFlags::NOCTTY.bits() as i32);
        Stdio::from(options.open(&self.name).expect("opens"))
    }

    /// Returns what is written to it, as it comes, until nobody has it any more.
    pub(crate) fn output(&self) -> Receiver<Vec<u8>> {
        let mut from = self.keyboard.try_clone().expect("a descriptor");
        let (to, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                if to.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        output
    }
}

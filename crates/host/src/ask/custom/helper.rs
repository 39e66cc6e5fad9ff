//! The life of the process that a module runs in.
//!
//! The process is a child of ours: forked while there is one thread, with only its socket. It ends when the
//! socket is closed, and with us.
#![allow(unsafe_code)] // reason: takes leave of what it has inherited.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::setsid;

use super::library::{Instance, Module};
use super::wire::{Reply, Request, split};

/// Bytes of memory that it may have of its own.
const MOST_MEMORY: u64 = 1 << 30;

/// Lives until the socket is closed.
pub(super) fn live(socket: UnixStream, path: &Path, argument: &CStr) {
    let mut socket = alone(socket);
    let mut out = Vec::new();
    let module = match Module::load(path) {
        Ok(module) => module,
        Err(refusal) => {
            Reply::Failed(refusal.to_string()).write(&mut out);
            // Nobody may listen.
            let _ = socket.write_all(&out);
            return;
        }
    };
    Reply::Loaded(module.terms.clone()).write(&mut out);
    let mut instances = BTreeMap::new();
    let mut input = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        if socket.write_all(&out).is_err() {
            return;
        }
        out.clear();
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(n) => input.extend_from_slice(&buffer[..n]),
        }
        let mut used = 0;
        while let Ok(Some((frame, length))) = split(&input[used..]) {
            let Some((number, request)) = Request::read(frame) else {
                return;
            };
            serve(
                &module,
                argument,
                &mut instances,
                number,
                &request,
                &mut out,
            );
            used += length;
            // An answer is not kept back for what comes next: that may take long.
            if socket.write_all(&out).is_err() {
                return;
            }
            out.clear();
        }
        input.drain(..used);
    }
}

fn serve<'m>(
    module: &'m Module,
    argument: &CStr,
    instances: &mut BTreeMap<u32, Instance<'m>>,
    number: u32,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) {
    let none = || Reply::Failed("there is no instance".to_owned());
    let instance = instances.get_mut(&number);
    let reply = match (request, instance) {
        (Request::Begin, _) => match Instance::begin(module, argument) {
            Ok(instance) => {
                instances.insert(number, instance);
                Reply::Done
            }
            Err(why) => Reply::Failed(why),
        },
        (Request::Met(met), instance) => {
            if let Some(instance) = instance {
                instance.meet(*met);
            }
            return;
        }
        (Request::Window(pid, thread, tuples), Some(instance)) => {
            let reply = instance.window((*pid, *thread), tuples);
            reply.unwrap_or_else(|| Reply::Failed("a window is malformed".to_owned()))
        }
        (Request::Format(number, value), Some(instance)) => {
            Reply::Text(instance.format(*number, *value))
        }
        (Request::Window(..) | Request::Format(..), None) => none(),
        (Request::End, _) => {
            instances.remove(&number);
            return;
        }
    };
    reply.write(out);
}

/// Leaves after what was inherited.
fn alone(socket: UnixStream) -> UnixStream {
    const SOCKET: i32 = 3;
    // SAFETY: duplicates descriptors and closes those that nothing here uses; each call's failure leaves less protected only.
    let socket = unsafe {
        let from = socket.into_raw_fd();
        if from != SOCKET {
            libc::dup2(from, SOCKET);
        }
        libc::syscall(libc::SYS_close_range, SOCKET + 1, i32::MAX, 0);
        UnixStream::from_raw_fd(SOCKET)
    };
    if let Ok(nothing) = std::fs::File::open("/dev/null") {
        // SAFETY: both are open. What it prints is not the program's output.
        unsafe {
            libc::dup2(nothing.as_raw_fd(), 0);
            libc::dup2(2, 1);
        }
    }
    // Interrupts of the terminal are for the command.
    let _ = setsid();
    // SAFETY: a valid name; and it ends with us. Its own handlers of crashes would only be in the way.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"custom-module".as_ptr());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        for signal in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGCHLD,
        ] {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = setrlimit(Resource::RLIMIT_DATA, MOST_MEMORY, MOST_MEMORY);
    socket
}

//! Arguments that the host passes to the runtime at start.

/// Arguments that the host writes to a place in the runtime's own image.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StartArgs {
    /// The shared file, as a descriptor of the target. The runtime closes it.
    pub file: u64,
    /// The file that the image is mapped from, likewise; `u64::MAX` for none.
    pub image_file: u64,
    /// Address where the app starts.
    pub app_pc: u64,
    /// The app's stack pointer.
    pub app_sp: u64,
    /// Address where the program itself starts, after its dynamic linker is done; 0 when the linker is done
    /// already, or there is none.
    pub entry: u64,
    /// First address of the runtime's code.
    pub image_start: u64,
    /// After its last.
    pub image_end: u64,
    /// First address of the memory that the host made: the image, and the stack after it.
    pub base: u64,
    /// Top of the stack the runtime is started on.
    pub stack_top: u64,
    /// Threads of the process, all of them stopped; 0 in a process that is about to start.
    pub threads: u64,
    /// An image of kept fragments, as `image_file`.
    pub kept_file: u64,
    /// Address of that image's path instead, above the stack pointer; 0 for none.
    pub kept_path: u64,
    /// The device of the file with that path.
    pub kept_device: u64,
    /// Inode of the file with that path.
    pub kept_inode: u64,
    /// The program's own limits, soft and hard, of [`trommel_queue::LIMITS`] in turn. The kernel's may be higher, so that there is
    /// room for the runtime.
    pub limits: [[u64; 2]; trommel_queue::LIMITS.len()],
}

//! Timing of a load: the instructions around it. They are the same wherever a load, or the timing itself, is timed.

/// The text of the instructions, for `asm!`: `$load`, text of its own, between two reads of the time stamp counter. `{s}` is a register with
/// the address of three words; at the third the low halves of both times are left. No register changes but by the load.
#[macro_export]
macro_rules! timed_load {
    ($load:literal) => {
        concat!(
            "mov [{s}], rax\n",
            "mov [{s} + 8], rdx\n",
            "lfence\n",
            "rdtsc\n",
            "mov [{s} + 16], eax\n",
            "mov rax, [{s}]\n",
            "mov rdx, [{s} + 8]\n",
            "lfence\n",
            $load,
            "\n",
            "lfence\n",
            "mov [{s}], rax\n",
            "mov [{s} + 8], rdx\n",
            "rdtsc\n",
            "mov [{s} + 20], eax\n",
            "mov rax, [{s}]\n",
            "mov rdx, [{s} + 8]",
        )
    };
}

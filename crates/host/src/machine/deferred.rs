//! Functions of the kernel in which interrupts arrive late.

/// Returns true if a function of the kernel's lets interrupts come that have waited: samples in it are mostly of those.
pub fn lets_interrupts_come(name: &str) -> bool {
    const NAMES: [&str; 15] = [
        "exc_page_fault",
        "do_syscall_64",
        "do_int80_emulation",
        "syscall_enter_from_user_mode",
        "syscall_exit_to_user_mode",
        "exit_to_user_mode_loop",
        "exit_to_user_mode_prepare",
        "irqentry_exit",
        "irqentry_exit_to_user_mode",
        "finish_task_switch",
        "__do_softirq",
        "handle_softirqs",
        "native_irq_enable",
        "pv_native_irq_enable",
        "__local_bh_enable_ip",
    ];
    let name = name.split(".isra").next().unwrap_or(name);
    let unlocks = name.starts_with("_raw_") && name.contains("unlock_irq");
    unlocks || NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_let_interrupts_come_are_known() {
        for name in [
            "_raw_spin_unlock_irqrestore",
            "finish_task_switch.isra.0",
            "do_syscall_64",
        ] {
            assert!(lets_interrupts_come(name), "{name}");
        }
        for name in ["read_zero", "_raw_spin_lock_irqsave", "_raw_spin_unlock"] {
            assert!(!lets_interrupts_come(name), "{name}");
        }
    }
}

//! Instructions as text: Intel's syntax, with names for addresses.

use iced_x86::{Formatter, Instruction, IntelFormatter, SymbolResolver, SymbolResult};

/// Names for the addresses in instructions.
type Names<'n> = dyn FnMut(u64) -> Option<String> + 'n;

/// Writes instructions.
pub struct Text {
    formatter: IntelFormatter,
}

impl Default for Text {
    fn default() -> Self {
        Self::new()
    }
}

impl Text {
    /// A writer.
    pub fn new() -> Self {
        let mut formatter = IntelFormatter::new();
        options(&mut formatter);
        Self { formatter }
    }

    /// The instruction, with names where `name` gives one.
    pub fn write(&mut self, instruction: &Instruction, name: &mut Names<'_>) -> String {
        if instruction.is_invalid() {
            return "(bad)".into();
        }
        let mut out = String::new();
        let named = named(instruction).and_then(|address| Some((address, name(address)?)));
        match named {
            Some((address, name)) => {
                let resolver = Box::new(One { address, name });
                let mut formatter = IntelFormatter::with_options(Some(resolver), None);
                options(&mut formatter);
                formatter.format(instruction, &mut out);
            }
            None => self.formatter.format(instruction, &mut out),
        }
        out
    }
}

fn options(formatter: &mut IntelFormatter) {
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(true);
    options.set_space_after_operand_separator(false);
    options.set_branch_leading_zeros(false);
    options.set_displacement_leading_zeros(false);
    options.set_rip_relative_addresses(false);
    options.set_show_branch_size(false);
    options.set_first_operand_char_index(7);
}

/// The address that may have a name: a branch's target, or memory at a fixed place.
fn named(instruction: &Instruction) -> Option<u64> {
    match instruction.near_branch_target() {
        0 if instruction.is_ip_rel_memory_operand() => Some(instruction.ip_rel_memory_address()),
        0 => None,
        target => Some(target),
    }
}

/// One name.
struct One {
    address: u64,
    name: String,
}

impl SymbolResolver for One {
    fn symbol(
        &mut self,
        _instruction: &Instruction,
        _operand: u32,
        _instruction_operand: Option<u32>,
        address: u64,
        _address_size: u32,
    ) -> Option<SymbolResult<'_>> {
        (address == self.address).then(|| SymbolResult::with_str(address, &self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn written(bytes: &[u8], name: Option<&str>) -> String {
        let instruction = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        Text::new().write(&instruction, &mut |_| name.map(str::to_owned))
    }

    #[test]
    fn instructions_read_as_in_manuals() {
        for (bytes, name, wanted) in [
            (&[0x48, 0x8b, 0x47, 0x08][..], None, "mov    rax,[rdi+8]"),
            (&[0x74, 0x0e], None, "je     0x1010"),
            (&[0xe8, 0x0b, 0, 0, 0], Some("puts@plt"), "call   puts@plt"),
            (
                &[0x8b, 0x05, 0x0a, 0, 0, 0],
                Some("counter"),
                "mov    eax,[counter]",
            ),
            (&[0x8b, 0x05, 0x0a, 0, 0, 0], None, "mov    eax,[0x1010]"),
            (&[0x06], None, "(bad)"),
        ] {
            assert_eq!(written(bytes, name), wanted);
        }
    }
}

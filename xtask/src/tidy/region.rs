//! End of an item of Rust source.

use super::line::Line;

/// Returns the index of the last line of the item that starts on line `start`: the line with the
/// brace that closes its body, or with its semicolon. If the item does not end, this is the last
/// line of the file.
pub fn item_end(lines: &[Line], start: usize) -> usize {
    let mut depth = 0_i64;
    for (index, line) in lines.iter().enumerate().skip(start) {
        for character in line.code.chars() {
            match character {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' => depth -= 1,
                '}' => {
                    depth -= 1;
                    if depth <= 0 {
                        return index;
                    }
                }
                ';' if depth == 0 => return index,
                _ => {}
            }
        }
    }
    lines.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rust::Rust;

    fn end(text: &str) -> usize {
        item_end(&Rust::parse(text).lines, 0)
    }

    #[test]
    fn an_item_ends_with_its_body_or_its_semicolon() {
        assert_eq!(end("#[a(b)]\nfn f(x: [u8; 3]) -> T {\n if x { y }\n}\nfn g() {}"), 3);
        assert_eq!(end("fn f(\n a: A,\n) -> B;\nfn g() {}"), 2);
        assert_eq!(end("fn f() {"), 0);
    }
}

//! Arrays written as texts: `{a,"b c",NULL}`.

/// Parses the items of `{a,"b c",NULL}`; `None` for a text that is no array of one dimension.
pub(crate) fn array_items(text: &str) -> Option<Vec<Option<String>>> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    let mut chars = inside.chars().peekable();
    if inside.trim().is_empty() {
        return Some(items);
    }
    loop {
        let (mut item, mut is_quoted) = (String::new(), false);
        loop {
            match chars.next() {
                Some('"') if !is_quoted && item.trim().is_empty() => {
                    is_quoted = true;
                    item.clear();
                    loop {
                        match chars.next()? {
                            '"' => break,
                            '\\' => item.push(chars.next()?),
                            other => item.push(other),
                        }
                    }
                }
                Some(',') => break,
                Some('{' | '}' | '"') => return None,
                Some('\\') => item.push(chars.next()?),
                Some(other) if !is_quoted => item.push(other),
                Some(other) if other.is_whitespace() => {}
                Some(_) => return None,
                None => {
                    items.push(of(item, is_quoted));
                    return Some(items);
                }
            }
        }
        items.push(of(item, is_quoted));
    }
}

fn of(item: String, is_quoted: bool) -> Option<String> {
    match is_quoted {
        true => Some(item),
        false if item.trim().eq_ignore_ascii_case("null") => None,
        false => Some(item.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_as_in_postgresql() {
        let read = |text: &str| {
            let shown = |item: Option<String>| item.unwrap_or_else(|| "-".to_owned());
            array_items(text)
                .map(|items| items.into_iter().map(shown).collect::<Vec<_>>().join("|"))
        };
        assert_eq!(read("{r,p, f}"), Some("r|p|f".to_owned()));
        assert_eq!(read("{}"), Some(String::new()));
        assert_eq!(read(r#"{"a,b" , NULL,"c\"d"}"#), Some("a,b|-|c\"d".to_owned()));
        assert_eq!(read("{{1},{2}}"), None);
        assert_eq!(read("r"), None);
    }
}

//! Characters, prefixes and Unicode forms.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::pattern::Patterns;
use crate::scalar::{Bool, Call, Definition, Int, Int32, Kind, Overload, Returns, Text};

const TEXT: &[Kind] = &[Kind::Text];
const TEXTS: &[Kind] = &[Kind::Text, Kind::Text];
const LIKE: &[Overload] =
    &[Overload::new(&[Kind::Text, Kind::Text, Kind::Text], Kind::Boolean, like)];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("strlen", &[Overload::new(TEXT, Kind::Integer, strlen)]),
    Definition::new("lcase", &[Overload::new(TEXT, Kind::Text, lcase)]),
    Definition::new("ucase", &[Overload::new(TEXT, Kind::Text, ucase)]),
    Definition::new("prefix", &[Overload::new(TEXTS, Kind::Boolean, prefix)]),
    Definition::new("suffix", &[Overload::new(TEXTS, Kind::Boolean, suffix)]),
    Definition::new("unicode", &[Overload::returning(TEXT, Returns::Integer32, unicode)])
        .alias(&["ord"]),
    Definition::new("strip_accents", &[Overload::new(TEXT, Kind::Text, strip_accents)]),
    Definition::new("nfc_normalize", &[Overload::new(TEXT, Kind::Text, nfc)]),
    Definition::new(
        "normalize",
        &[Overload::new(TEXT, Kind::Text, nfc), Overload::new(TEXTS, Kind::Text, normalize)],
    ),
    Definition::new("is_normalized", &[Overload::new(TEXTS, Kind::Boolean, is_normalized)]),
    Definition::new("like_escape", LIKE),
    Definition::new("not_like_escape", LIKE),
    Definition::new("ilike_escape", LIKE),
    Definition::new("not_ilike_escape", LIKE),
];

/// The bytes of a text.
fn strlen(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Int>(|text| Ok(i64::try_from(text.len()).ok()))
}

fn lcase(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Text>(|text| Ok(Some(text.to_lowercase().into())))
}

fn ucase(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Text>(|text| Ok(Some(text.to_uppercase().into())))
}

fn prefix(call: &Call) -> Result<ArrayRef> {
    call.map2::<Text, Text, Bool>(|text, prefix| Ok(Some(text.starts_with(prefix))))
}

fn suffix(call: &Call) -> Result<ArrayRef> {
    call.map2::<Text, Text, Bool>(|text, suffix| Ok(Some(text.ends_with(suffix))))
}

/// The code point of the first character, -1 for the empty text.
fn unicode(call: &Call) -> Result<ArrayRef> {
    let code = |first: char| i32::try_from(u32::from(first)).ok();
    call.map1::<Text, Int32>(|text| Ok(text.chars().next().map_or(Some(-1), code)))
}

fn strip_accents(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Text>(|text| {
        if text.is_ascii() {
            return Ok(Some(text.into()));
        }
        let letters = text.nfd().filter(|&letter| !is_combining_mark(letter)).nfc();
        Ok(Some(letters.collect::<String>().into()))
    })
}

fn nfc(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Text>(|text| match text.is_ascii() {
        true => Ok(Some(text.into())),
        false => Ok(Some(text.nfc().collect::<String>().into())),
    })
}

fn normalize(call: &Call) -> Result<ArrayRef> {
    call.map2::<Text, Text, Text>(|text, form| Ok(Some(normal(call, text, form)?.into())))
}

fn is_normalized(call: &Call) -> Result<ArrayRef> {
    call.map2::<Text, Text, Bool>(|text, form| Ok(Some(normal(call, text, form)? == text)))
}

/// A text in a normal form.
fn normal(call: &Call, text: &str, form: &str) -> Result<String> {
    Ok(match form.to_ascii_uppercase().as_str() {
        "NFC" => text.nfc().collect(),
        "NFD" => text.nfd().collect(),
        "NFKC" => text.nfkc().collect(),
        "NFKD" => text.nfkd().collect(),
        _ => return exec_err!("{} takes NFC, NFD, NFKC or NFKD, not {form:?}", call.name()),
    })
}

/// `x LIKE y ESCAPE z`, and its three variants.
fn like(call: &Call) -> Result<ArrayRef> {
    let (is_negated, ignores_case) =
        (call.name().starts_with("not_"), call.name().contains("ilike"));
    let mut patterns = Patterns::default();
    call.map3::<Text, Text, Text, Bool>(|text, pattern, escape| {
        let matcher = patterns.of_like(pattern, escape, ignores_case)?;
        Ok(Some(matcher.is_match(text) != is_negated))
    })
}

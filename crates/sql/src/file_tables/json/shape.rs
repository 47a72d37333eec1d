//! Inference of column types from JSON values, as in DuckDB.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use super::super::guess::{Guess, merged};

/// The type of an element.
#[derive(Debug)]
pub(super) struct Shape(pub(super) Guess);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor).map(Self)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Guess;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Guess, E> {
        Ok(Guess::Boolean)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Guess, E> {
        Ok(Guess::Integer)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Guess, E> {
        Ok(if i64::try_from(value).is_ok() { Guess::Integer } else { Guess::Huge })
    }

    fn visit_f64<E>(self, _: f64) -> Result<Guess, E> {
        Ok(Guess::Double)
    }

    fn visit_str<E>(self, text: &str) -> Result<Guess, E> {
        Ok(Guess::of_time(text).unwrap_or(Guess::Text))
    }

    fn visit_unit<E>(self) -> Result<Guess, E> {
        Ok(Guess::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Guess, A::Error> {
        let mut item = Guess::Null;
        while let Some(Shape(guess)) = values.next_element()? {
            item = item.or(guess);
        }
        Ok(Guess::List(Box::new(item)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Guess, A::Error> {
        let mut all = vec![];
        while let Some((name, Shape(guess))) = fields.next_entry::<String, Shape>()? {
            // The decoder keeps the last of several fields of one name.
            all = merged(all, vec![(name, guess)]);
        }
        Ok(Guess::Struct(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_the_types_that_duckdb_infers() {
        let of = |text: &str| {
            let shapes = serde_json::Deserializer::from_str(text).into_iter::<Shape>();
            let guess = shapes.map(|shape| shape.expect("JSON").0).fold(Guess::Null, Guess::or);
            guess.data_type().map(|data_type| data_type.to_string())
        };
        let rows = r#"{"id": 1, "tags": ["a"], "o": {"k": 1}, "d": "2024-01-02"}
            {"id": 2.5, "tags": null, "o": {"z": true}, "t": "2024-01-01 00:00:00"}"#;
        assert_eq!(
            of(rows).as_deref(),
            Some(
                "Struct(\"id\": Float64, \"tags\": List(Utf8View), \"o\": Struct(\"k\": Int64, \
                 \"z\": Boolean), \"d\": Date32, \"t\": Timestamp(\u{b5}s))"
            )
        );
        assert_eq!(of("{\"a\": 1} {\"a\": {\"b\": 1}}"), None);
        assert_eq!(
            of("{\"a\": 18446744073709551615}").as_deref(),
            Some("Struct(\"a\": Decimal128(38, 0))")
        );
        assert_eq!(
            of("{\"b\": \"5\", \"a\": []}").as_deref(),
            Some("Struct(\"b\": Utf8View, \"a\": List(Utf8View))")
        );
    }
}

//! Paths to values of a JSON text: DuckDB's `$.a[0]` and `/a/0`, and PostgreSQL's keys.

use datafusion::common::{Result, plan_err};

use super::text::{Json, Kind};

/// Maximum number of steps of a path.
const STEPS_MAX: usize = 1_000;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A member of an object.
    Member(String),
    /// An element of an array, from the end if negative.
    Element(i64),
    /// A member of an object, or the element of an array with this number.
    Either(String),
    /// All members of an object.
    Members,
    /// All elements of an array.
    Elements,
}

/// A path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

impl Path {
    /// Parses a path of DuckDB: `$.a[0]`, `/a/0`, or the name of a member.
    ///
    /// # Errors
    /// Syntax errors, and `..`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let steps = if let Some(rest) = text.strip_prefix('$') {
            steps_of(text, rest)?
        } else if let Some(rest) = text.strip_prefix('/') {
            let parts = rest.split('/');
            parts.map(|part| Step::Either(part.replace("~1", "/").replace("~0", "~"))).collect()
        } else {
            vec![Step::Member(text.to_owned())]
        };
        match steps.len() > STEPS_MAX {
            true => plan_err!("a JSON path has at most {STEPS_MAX} steps"),
            false => Ok(Self(steps)),
        }
    }

    /// The path of an element.
    pub(crate) fn of_position(position: i64) -> Self {
        Self(vec![Step::Element(position)])
    }

    /// True if the text is a path rather than the name of a member.
    pub(crate) fn is_path(text: &str) -> bool {
        text == "$" || ["$.", "$[", "/"].into_iter().any(|start| text.starts_with(start))
    }

    /// True for a path with `*`, which may find several values.
    pub(crate) fn is_of_many(&self) -> bool {
        self.0.iter().any(|step| matches!(step, Step::Members | Step::Elements))
    }

    /// The value at a path without `*`.
    pub(crate) fn find<'a>(&self, json: Json<'a>) -> Option<Json<'a>> {
        self.0.iter().try_fold(json, |value, step| match step {
            Step::Member(name) => value.member(name),
            Step::Element(position) => value.element(*position),
            Step::Either(name) => child(value, name),
            Step::Members | Step::Elements => None,
        })
    }

    /// All values at a path, in the order of the text.
    pub(crate) fn find_all<'a>(&self, json: Json<'a>) -> Vec<Json<'a>> {
        let mut found = vec![json];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| at(value, step)).collect();
        }
        found
    }
}

fn at<'a>(value: Json<'a>, step: &Step) -> Vec<Json<'a>> {
    match step {
        Step::Member(name) => value.member(name).into_iter().collect(),
        Step::Element(position) => value.element(*position).into_iter().collect(),
        Step::Either(name) => child(value, name).into_iter().collect(),
        Step::Members => value.members().map(|(_, value)| value).collect(),
        Step::Elements => value.elements().collect(),
    }
}

/// The member of this name, or the element with this number.
pub(crate) fn child<'a>(value: Json<'a>, name: &str) -> Option<Json<'a>> {
    match value.kind() {
        Kind::Object => value.member(name),
        Kind::Array => value.element(name.parse().ok()?),
        _ => None,
    }
}

/// Parses the steps behind `$`.
fn steps_of(text: &str, mut rest: &str) -> Result<Vec<Step>> {
    let malformed = |rest: &str| {
        plan_err!("invalid JSON path {text:?} at {rest:?}: write paths as $.name[0] or /name/0")
    };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step = match rest.strip_prefix('.') {
            Some(member) => member_of(member),
            None => element_of(rest),
        };
        let Some((step, next)) = step else { return malformed(rest) };
        steps.push(step);
        rest = next;
    }
    Ok(steps)
}

/// Parses `*`, `name` or `"name"`.
fn member_of(text: &str) -> Option<(Step, &str)> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some((Step::Members, rest));
    }
    if let Some(quoted) = text.strip_prefix('"') {
        let (name, rest) = quoted.split_once('"')?;
        return Some((Step::Member(name.to_owned()), rest));
    }
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end)?;
    (!name.is_empty()).then(|| (Step::Member(name.to_owned()), rest))
}

/// Parses `[0]`, `[-1]`, `[#-1]`, `[*]` or `["name"]`.
fn element_of(text: &str) -> Option<(Step, &str)> {
    let inner = text.strip_prefix('[')?;
    if let Some(quoted) = inner.strip_prefix('"') {
        let (name, rest) = quoted.split_once("\"]")?;
        return Some((Step::Member(name.to_owned()), rest));
    }
    let (position, rest) = inner.split_once(']')?;
    if position == "*" {
        return Some((Step::Elements, rest));
    }
    let position = position.strip_prefix('#').unwrap_or(position);
    Some((Step::Element(position.parse().ok()?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_find_values() {
        let text = r#"{"a":[{"b":1},{"b":2}],"x y":{"c":[[3]]},"~/":4}"#;
        let json = Json::parse(text).expect("JSON");
        let find = |path: &str| Path::parse(path).expect(path).find(json).map(Json::text);
        assert_eq!(find("$.a[1].b"), Some("2"));
        assert_eq!(find("$.a[#-1].b"), Some("2"));
        assert_eq!(find("$.\"x y\".c[0][0]"), Some("3"));
        assert_eq!(find("$[\"x y\"].c[-1][-1]"), Some("3"));
        assert_eq!(find("/a/0/b"), Some("1"));
        assert_eq!(find("/~0~1"), Some("4"));
        assert_eq!(find("a"), Some(r#"[{"b":1},{"b":2}]"#));
        assert_eq!(find("$"), Some(text));
        assert_eq!(find("$.a.b"), None);
        let all = Path::parse("$.a[*].b").expect("a path").find_all(json);
        assert_eq!(all.into_iter().map(Json::text).collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn malformed_paths_are_refused() {
        for path in ["$a", "$.", "$.a.", "$[", "$[x]", "$..a", "$.\"a", "$[1.5]"] {
            let error = Path::parse(path).expect_err(path).to_string();
            assert!(error.contains("write paths as $.name[0]"), "{path}: {error}");
        }
        assert!(Path::parse(&"/a".repeat(2_000)).is_err());
    }
}

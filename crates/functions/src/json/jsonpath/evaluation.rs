//! Evaluation of paths.
//!
//! Each value passes all accessors before the next one, so that a condition ends with the first
//! value that it needs. In lax mode arrays are unwrapped, single values are wrapped, and missing
//! members are skipped; in strict mode these are faults. A fault within a condition makes it
//! unknown.

use std::borrow::Cow;
use std::mem;

use datafusion::common::exec_datafusion_err;

use super::super::text::Kind;
use super::super::value::Value;
use super::fault::{Fault, Found, fault, known};
use super::item::Item;
use super::method::apply;
use super::number::{Number, with_sign};
use super::object_ids::ObjectIds;
use super::syntax::{Condition, Expr, JsonPath, Method, Operator, Step};

/// Maximum number of values that are kept at a time.
const VALUES_MAX: usize = 1 << 22;
/// Maximum number of steps from value to value, which bounds the time of an evaluation.
pub(super) const STEPS_MAX: usize = 1 << 26;
/// Bytes of a text that are compared or matched in a step.
const STEP_BYTES: usize = 64;

/// Receiver of the values that are found.
enum Sink<'s, 'v> {
    All(&'s mut Vec<Item<'v>>),
    /// Becomes true with the first value, which ends the evaluation.
    Any(&'s mut bool),
}

/// An evaluation of a path over a document, both of which live as long as the values.
pub(super) struct Evaluation<'v> {
    path: &'v JsonPath,
    root: &'v Value<'v>,
    variables: Option<&'v Value<'v>>,
    /// The value of `@`.
    current: Option<Item<'v>>,
    /// The number of elements of the array whose subscripts are evaluated.
    elements: usize,
    ignores_structure: bool,
    pub(super) steps: usize,
    values: usize,
    ids: ObjectIds<'v>,
}

impl<'v> Evaluation<'v> {
    pub(super) fn new(
        path: &'v JsonPath,
        root: &'v Value<'v>,
        variables: Option<&'v Value<'v>>,
    ) -> Self {
        Self {
            path,
            root,
            variables,
            current: None,
            elements: 0,
            ignores_structure: path.is_lax,
            steps: 0,
            values: 0,
            ids: ObjectIds::default(),
        }
    }

    /// Appends all values to `found`, those before a fault too.
    ///
    /// # Errors
    /// Faults of values, and errors of the call.
    pub(super) fn all(mut self, found: &mut Vec<Item<'v>>) -> Found<()> {
        let root = &self.path.root;
        self.evaluate(root, &mut Sink::All(found)).map(|_| ())
    }

    /// True if there is a value.
    ///
    /// # Errors
    /// As [`Self::all`]; in lax mode only faults before the first value.
    pub(super) fn any(mut self) -> Found<bool> {
        let root = &self.path.root;
        self.exists(root)
    }

    fn exists(&mut self, expr: &'v Expr) -> Found<bool> {
        if self.path.is_lax {
            let mut is_found = false;
            self.evaluate(expr, &mut Sink::Any(&mut is_found))?;
            return Ok(is_found);
        }
        // All values are needed, to see that there is no fault.
        let mut found = Vec::new();
        self.evaluate(expr, &mut Sink::All(&mut found))?;
        Ok(!found.is_empty())
    }

    /// Passes the values of an expression to `sink`; true if no more are needed.
    fn evaluate(&mut self, expr: &'v Expr, sink: &mut Sink<'_, 'v>) -> Found<bool> {
        match expr {
            Expr::Steps(base, steps) => self.base(base, steps, sink),
            base => self.base(base, &[], sink),
        }
    }

    /// Passes the values that steps find from those of an expression.
    fn base(&mut self, base: &'v Expr, steps: &'v [Step], sink: &mut Sink<'_, 'v>) -> Found<bool> {
        let item = match base {
            Expr::Root => Item::Node(self.root),
            Expr::Current => match &self.current {
                Some(current) => current.clone(),
                None => return fault("@ is not in a filter"),
            },
            Expr::Last => {
                let last = i128::try_from(self.elements).unwrap_or(0) - 1;
                Item::Word(last.to_string().into())
            }
            Expr::Variable(name) => self.variable(name)?,
            Expr::Word(word) => Item::Word(Cow::Borrowed(word)),
            Expr::Text(text) => Item::Text(Cow::Borrowed(text)),
            Expr::Sign { negates, operand } => return self.sign(*negates, operand, steps, sink),
            Expr::Arithmetic { first, rest } => self.arithmetic(first, rest)?,
            Expr::Truth(condition) => Item::of_truth(self.condition(condition)?),
            Expr::Steps(inner, first) => {
                let mut found = Vec::new();
                self.base(inner, first, &mut Sink::All(&mut found))?;
                return self.each(found, steps, sink);
            }
        };
        self.follow(steps, item, self.path.is_lax, sink)
    }

    fn each(
        &mut self,
        items: Vec<Item<'v>>,
        steps: &'v [Step],
        sink: &mut Sink<'_, 'v>,
    ) -> Found<bool> {
        for item in items {
            if self.follow(steps, item, self.path.is_lax, sink)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn variable(&self, name: &str) -> Found<Item<'v>> {
        let variable = self.variables.and_then(|variables| variables.member(name));
        variable.map(Item::Node).ok_or_else(|| {
            Fault::Call(exec_datafusion_err!(
                "the JSON path has a variable {name:?}, which its variables do not have"
            ))
        })
    }

    /// All values of an expression, with the elements of arrays in their place if `unwraps` in lax
    /// mode.
    fn sequence(&mut self, expr: &'v Expr, unwraps: bool) -> Found<Vec<Item<'v>>> {
        let mut found = Vec::new();
        self.evaluate(expr, &mut Sink::All(&mut found))?;
        if !(unwraps && self.path.is_lax) {
            return Ok(found);
        }
        let mut unwrapped = Vec::with_capacity(found.len());
        for item in found {
            match item.elements() {
                Some(elements) => {
                    self.spend(elements.len())?;
                    self.keep(elements.len())?;
                    unwrapped.extend(elements.iter().map(Item::Node));
                }
                None => unwrapped.push(item),
            }
        }
        Ok(unwrapped)
    }

    /// Adds `count` values to those kept in memory; an error above [`VALUES_MAX`].
    fn keep(&mut self, count: usize) -> Found<()> {
        self.values = self.values.saturating_add(count);
        match self.values > VALUES_MAX {
            true => Err(Fault::Call(exec_datafusion_err!(
                "a JSON path finds more than {VALUES_MAX} values; make it find fewer"
            ))),
            false => Ok(()),
        }
    }

    /// Adds `steps` to the steps taken; an error above [`STEPS_MAX`].
    fn spend(&mut self, steps: usize) -> Found<()> {
        self.steps = self.steps.saturating_add(steps);
        match self.steps > STEPS_MAX {
            true => Err(Fault::Call(exec_datafusion_err!(
                "a JSON path takes more than {STEPS_MAX} steps; make it find fewer values"
            ))),
            false => Ok(()),
        }
    }

    /// The only value of an expression if it is a number, which may be that of an array if
    /// `unwraps` in lax mode.
    fn only_number(&mut self, expr: &'v Expr, unwraps: bool) -> Found<Option<Item<'v>>> {
        let kept = self.values;
        let found = self.sequence(expr, unwraps)?;
        self.values = kept;
        Ok(match found.as_slice() {
            [one] if one.number().is_some() => Some(one.clone()),
            _ => None,
        })
    }

    /// The number of an operand.
    fn operand(&mut self, expr: &'v Expr, operator: Operator, side: &str) -> Found<Number> {
        let Some(number) = self.only_number(expr, true)? else {
            return fault(format!(
                "the {side} operand of {} in a JSON path is not a single numeric value",
                operator.sign()
            ));
        };
        match Number::of(number.word()) {
            Some(number) => Ok(number),
            None => fault("a JSON path computes with numbers of up to 38 digits"),
        }
    }

    fn arithmetic(&mut self, first: &'v Expr, rest: &'v [(Operator, Expr)]) -> Found<Item<'v>> {
        let operator = rest.first().map_or(Operator::Add, |(operator, _)| *operator);
        let mut result = self.operand(first, operator, "left")?;
        for (operator, right) in rest {
            let right = self.operand(right, *operator, "right")?;
            let divides = matches!(operator, Operator::Divide | Operator::Remainder);
            if divides && right.is_zero() {
                return fault("division by zero");
            }
            result = match result.apply(*operator, right) {
                Some(result) => result,
                None => return fault("a result in a JSON path has more than 38 digits"),
            };
        }
        Ok(Item::Word(result.to_string().into()))
    }

    fn sign(
        &mut self,
        negates: bool,
        operand: &'v Expr,
        steps: &'v [Step],
        sink: &mut Sink<'_, 'v>,
    ) -> Found<bool> {
        let is_tested = steps.is_empty() && matches!(sink, Sink::Any(_));
        for item in self.sequence(operand, true)? {
            let signed = match item.number() {
                Some(number) if negates => Item::Word(with_sign(number, false).into()),
                Some(_) => item,
                None if is_tested => continue,
                None => {
                    let sign = if negates { '-' } else { '+' };
                    return fault(format!("the operand of {sign} in a JSON path is no number"));
                }
            };
            if self.follow(steps, signed, self.path.is_lax, sink)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Passes the values that steps find from a value; true if no more are needed.
    fn follow(
        &mut self,
        steps: &'v [Step],
        item: Item<'v>,
        unwraps: bool,
        sink: &mut Sink<'_, 'v>,
    ) -> Found<bool> {
        self.spend(1)?;
        let Some((step, next)) = steps.split_first() else { return self.pass(item, sink) };
        let takes_elements = match step {
            Step::Member(_) | Step::Members | Step::Filter(_) => true,
            Step::Method(method) => !matches!(method, Method::Type | Method::Size),
            _ => false,
        };
        match unwraps && takes_elements && item.elements().is_some() {
            true => self.children(steps, &item, false, sink),
            false => self.step(step, next, item, sink),
        }
    }

    /// Passes a value that all steps have found; true if no more are needed.
    fn pass(&mut self, item: Item<'v>, sink: &mut Sink<'_, 'v>) -> Found<bool> {
        match sink {
            Sink::Any(is_found) => {
                **is_found = true;
                Ok(true)
            }
            Sink::All(found) => {
                self.keep(1)?;
                found.push(item);
                Ok(false)
            }
        }
    }

    /// Follows one step from a value, and the next ones.
    fn step(
        &mut self,
        step: &'v Step,
        next: &'v [Step],
        item: Item<'v>,
        sink: &mut Sink<'_, 'v>,
    ) -> Found<bool> {
        let is_lax = self.path.is_lax;
        match step {
            Step::Member(name) => match item.member(name) {
                Some(member) => self.follow(next, member, is_lax, sink),
                None if item.kind() == Kind::Object => {
                    self.missing(|| format!("the JSON object does not contain the key {name:?}"))
                }
                None => self.missing(|| {
                    format!("the JSON path takes the member {name:?} of a value that is no object")
                }),
            },
            Step::Members if item.kind() == Kind::Object => {
                self.children(next, &item, is_lax, sink)
            }
            Step::Members => {
                self.missing(|| "the JSON path takes .* of a value that is no object".to_owned())
            }
            Step::Elements if item.elements().is_some() => self.children(next, &item, is_lax, sink),
            Step::Elements if is_lax => self.follow(next, item, true, sink),
            Step::Elements => {
                self.missing(|| "the JSON path takes [*] of a value that is no array".to_owned())
            }
            Step::Subscripts(subscripts) => self.subscripts(subscripts, next, &item, sink),
            Step::Descendants { first, last } => {
                if *first == 0
                    && self.tolerant(|own| own.follow(next, item.clone(), is_lax, sink))?
                {
                    return Ok(true);
                }
                self.descend(next, item, (*first, *last), sink)
            }
            Step::Filter(condition) => {
                let outer = self.current.replace(item.clone());
                let truth = self.condition(condition);
                self.current = outer;
                match truth? {
                    Some(true) => self.follow(next, item, is_lax, sink),
                    _ => Ok(false),
                }
            }
            Step::Method(Method::KeyValue) => self.pairs(next, &item, sink),
            Step::Method(method) => match apply(*method, &item, || self.single())? {
                Some(result) => self.follow(next, result, is_lax, sink),
                None => Ok(false),
            },
        }
    }

    /// Follows steps from each element or member of a value.
    fn children(
        &mut self,
        steps: &'v [Step],
        item: &Item<'v>,
        unwraps: bool,
        sink: &mut Sink<'_, 'v>,
    ) -> Found<bool> {
        for child in (0..item.count()).map_while(|place| item.child(place)) {
            if self.follow(steps, child, unwraps, sink)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns false, or the fault of a missing part unless faults of the structure are ignored.
    fn missing(&self, fault: impl Fn() -> String) -> Found<bool> {
        if self.ignores_structure { Ok(false) } else { Err(Fault::Value(fault())) }
    }

    /// Evaluates with faults of the structure ignored.
    fn tolerant(&mut self, evaluate: impl FnOnce(&mut Self) -> Found<bool>) -> Found<bool> {
        let outer = mem::replace(&mut self.ignores_structure, true);
        let result = evaluate(self);
        self.ignores_structure = outer;
        result
    }

    /// Follows `steps` from the values at the levels `first` to `last` below `item`. The traversal
    /// has its own stack, since recursion in nested filters of deep documents could overflow.
    fn descend(
        &mut self,
        steps: &'v [Step],
        item: Item<'v>,
        (first, last): (u32, u32),
        sink: &mut Sink<'_, 'v>,
    ) -> Found<bool> {
        let (is_lax, are_leaves) = (self.path.is_lax, first == u32::MAX);
        // The stack of values that enclose the current one, each with the index of its next child.
        let mut open = if last > 0 { vec![(item, 0)] } else { Vec::new() };
        loop {
            let level = u32::try_from(open.len()).unwrap_or(u32::MAX);
            let Some((parent, place)) = open.last_mut() else { return Ok(false) };
            let Some(child) = parent.child(*place) else {
                open.pop();
                continue;
            };
            *place += 1;
            self.spend(1)?;
            let is_leaf = !matches!(child.kind(), Kind::Array | Kind::Object);
            if level >= first || are_leaves && is_leaf {
                let child = child.clone();
                if self.tolerant(|own| own.follow(steps, child, is_lax, sink))? {
                    return Ok(true);
                }
            }
            if level < last && !is_leaf {
                open.push((child, 0));
            }
        }
    }

    fn subscripts(
        &mut self,
        subscripts: &'v [(Expr, Option<Expr>)],
        next: &'v [Step],
        item: &Item<'v>,
        sink: &mut Sink<'_, 'v>,
    ) -> Found<bool> {
        let is_lax = self.path.is_lax;
        let count = match item.elements() {
            Some(elements) => elements.len(),
            None if is_lax => 1,
            None => {
                return self.missing(|| {
                    "the JSON path takes an element of a value that is no array".to_owned()
                });
            }
        };
        for (from, to) in subscripts {
            let outer = mem::replace(&mut self.elements, count);
            let range = self.range(from, to.as_ref());
            self.elements = outer;
            let (from, to) = range?;
            let end = i128::try_from(count).unwrap_or(i128::MAX) - 1;
            if !self.ignores_structure && (from < 0 || from > to || to > end) {
                return fault("a subscript of the JSON path is out of bounds");
            }
            let place = |at: i128| usize::try_from(at.clamp(0, end.max(0))).unwrap_or(0);
            if from > end || to < 0 || from > to || count == 0 {
                continue;
            }
            for place in place(from)..=place(to) {
                let element = match item.elements() {
                    Some(_) => item.child(place),
                    None => Some(item.clone()),
                };
                let Some(element) = element else { continue };
                if self.follow(next, element, is_lax, sink)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Evaluates the bounds of the subscript `from to to`; without `to` both are `from`.
    fn range(&mut self, from: &'v Expr, to: Option<&'v Expr>) -> Found<(i128, i128)> {
        let from = self.position(from)?;
        let to = match to {
            Some(to) => self.position(to)?,
            None => from,
        };
        Ok((from, to))
    }

    fn position(&mut self, expr: &'v Expr) -> Found<i128> {
        let Some(number) = self.only_number(expr, false)? else {
            return fault("a subscript of the JSON path is not a single numeric value");
        };
        match Number::of(number.word()).map(Number::truncated) {
            Some(position) if i32::try_from(position).is_ok() => Ok(position),
            _ => fault("a subscript of the JSON path is out of integer range"),
        }
    }

    /// The size of a value that is no array: 1 in lax mode, else a fault; `None` if faults of the
    /// structure are ignored.
    fn single(&self) -> Found<Option<Item<'v>>> {
        if self.path.is_lax {
            return Ok(Some(Item::Word(Cow::Borrowed("1"))));
        }
        self.missing(|| "the JSON path method .size() takes an array".to_owned())?;
        Ok(None)
    }

    /// `.keyvalue()`: follows steps from an object with `key`, `value` and `id` for each member.
    fn pairs(&mut self, next: &'v [Step], item: &Item<'v>, sink: &mut Sink<'_, 'v>) -> Found<bool> {
        let object = match item {
            Item::Node(object) => *object,
            _ => return fault("the JSON path method .keyvalue() takes an object"),
        };
        let Value::Object(members) = object else {
            return fault("the JSON path method .keyvalue() takes an object");
        };
        let id = self.ids.of(object, [self.root].into_iter().chain(self.variables));
        for (name, value) in members {
            let pair = Item::Pair { name, value, id };
            if self.follow(next, pair, self.path.is_lax, sink)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True, false, or `None` for unknown.
    fn condition(&mut self, condition: &'v Condition) -> Found<Option<bool>> {
        match condition {
            Condition::All(all) => self.fold(all, false),
            Condition::Any(all) => self.fold(all, true),
            Condition::Not(inner) => Ok(self.condition(inner)?.map(|truth| !truth)),
            Condition::IsUnknown(inner) => Ok(Some(self.condition(inner)?.is_none())),
            Condition::Exists(expr) => {
                let kept = self.values;
                let exists = self.exists(expr);
                self.values = kept;
                known(exists)
            }
            Condition::Compare { comparison, left, right } => {
                self.test((left, Some(right)), true, |left, right| {
                    right.and_then(|right| left.compare(*comparison, right))
                })
            }
            Condition::StartsWith { text, prefix } => {
                self.test((text, Some(prefix)), false, |text, prefix| {
                    Some(text.text()?.starts_with(prefix?.text()?))
                })
            }
            Condition::Matches { text, regex } => self
                .test((text, None), false, |text, _| text.text().map(|text| regex.is_match(text))),
        }
    }

    /// Combines conditions by AND (`decisive` is false) or OR (true): the first that equals
    /// `decisive` ends the evaluation.
    fn fold(&mut self, all: &'v [Condition], decisive: bool) -> Found<Option<bool>> {
        let mut joined = Some(!decisive);
        for condition in all {
            match self.condition(condition)? {
                Some(truth) if truth == decisive => return Ok(Some(decisive)),
                Some(_) => {}
                None => joined = None,
            }
        }
        Ok(joined)
    }

    /// Tests the values of an expression with those of another one: true if one test is, in strict
    /// mode only if none is unknown.
    fn test(
        &mut self,
        (left, right): (&'v Expr, Option<&'v Expr>),
        unwraps_right: bool,
        test: impl Fn(&Item<'v>, Option<&Item<'v>>) -> Option<bool>,
    ) -> Found<Option<bool>> {
        let kept = self.values;
        let lefts = self.sequence(left, true);
        let rights = match (&lefts, right) {
            (Ok(_), Some(right)) => self.sequence(right, unwraps_right).map(Some),
            _ => Ok(None),
        };
        self.values = kept;
        let (Some(lefts), Some(rights)) = (known(lefts)?, known(rights)?) else {
            return Ok(None);
        };
        let is_lax = self.path.is_lax;
        let (mut is_true, mut is_unknown) = (false, false);
        for left in &lefts {
            let count = rights.as_ref().map_or(1, Vec::len);
            let bytes = left.text().unwrap_or_else(|| left.word()).len();
            self.spend(count.saturating_mul(1 + bytes / STEP_BYTES))?;
            for place in 0..count {
                match test(left, rights.as_ref().and_then(|rights| rights.get(place))) {
                    Some(true) if is_lax => return Ok(Some(true)),
                    Some(true) => is_true = true,
                    Some(false) => {}
                    None if is_lax => is_unknown = true,
                    None => return Ok(None),
                }
            }
        }
        Ok(if is_true || !is_unknown { Some(is_true) } else { None })
    }
}

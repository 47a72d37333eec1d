//! Functions that describe functions: `pg_get_function_arguments` and the like. They describe the
//! functions and macros of users; of built-in functions no parameters are known.

use datafusion::common::ScalarValue;
use terrace_sql::session::RoutineReport;

use super::super::value::Value;
use super::argument::integer;
use super::call::Call;
use super::function::{Definition, Returns, strict};
use super::identifier::quote;

pub(super) const FUNCTIONS: &[Definition] = &[
    strict("pg_get_function_arguments", (1, 1), Returns::Text, |call, arguments| {
        Ok(routine(call, arguments).map_or(String::new(), |it| listed(call, it, true)).into())
    }),
    strict("pg_get_function_identity_arguments", (1, 1), Returns::Text, |call, arguments| {
        Ok(routine(call, arguments).map_or(String::new(), |it| listed(call, it, false)).into())
    }),
    strict("pg_get_function_result", (1, 1), Returns::Text, |call, arguments| {
        let found = routine(call, arguments);
        Ok(found.map_or("\"any\"".to_owned(), |it| result(call, it)).into())
    }),
    strict("pg_get_functiondef", (1, 1), Returns::Text, |call, arguments| {
        Ok(routine(call, arguments).map(|it| definition(call, it)).into())
    }),
    strict("pg_get_function_sqlbody", (1, 1), Returns::Text, |call, arguments| {
        let found = routine(call, arguments).filter(|it| it.is_expression);
        Ok(found.map(|it| format!("RETURN {}", it.body)).into())
    }),
];

/// Returns the function or macro of a user whose OID is the argument.
fn routine<'a>(call: &'a Call<'_>, arguments: &[ScalarValue]) -> Option<&'a RoutineReport> {
    call.routine(arguments.first().and_then(integer)?)
}

/// Returns the parameters with their types. A parameter of a macro has no type unless its
/// definition gives it one.
fn listed(call: &Call<'_>, routine: &RoutineReport, has_defaults: bool) -> String {
    let parameters = routine.parameters.iter().zip(&routine.defaults);
    let parameter =
        |((name, of), default): (&(Option<String>, Option<String>), &Option<String>)| {
            let mut words: Vec<String> = name.iter().map(|name| quote(name)).collect();
            words.extend(of.as_ref().map(|of| call.type_named(of)));
            let default = default.as_ref().filter(|_| has_defaults);
            words.extend(default.map(|default| format!("DEFAULT {default}")));
            words.join(" ")
        };
    parameters.map(parameter).collect::<Vec<_>>().join(", ")
}

fn result(call: &Call<'_>, routine: &RoutineReport) -> String {
    match &routine.returns {
        Some(of) if routine.returns_rows => format!("SETOF {}", call.type_named(of)),
        Some(of) => call.type_named(of),
        None if routine.columns.is_empty() && routine.returns_rows => "SETOF record".to_owned(),
        None if routine.columns.is_empty() => "\"any\"".to_owned(),
        None => {
            let columns = routine.columns.iter();
            let column =
                |(name, of): &(String, String)| format!("{} {}", quote(name), call.type_named(of));
            format!("TABLE({})", columns.map(column).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns the statement that creates a function, in PostgreSQL's form; for a macro the one that
/// has created it.
fn definition(call: &Call<'_>, routine: &RoutineReport) -> Value {
    if routine.is_macro {
        return routine.definition.as_str().into();
    }
    let (schema, name) = (quote(&routine.schema), quote(&routine.name));
    let (arguments, result) = (listed(call, routine, true), result(call, routine));
    let mut lines = vec![
        format!("CREATE OR REPLACE FUNCTION {schema}.{name}({arguments})"),
        format!(" RETURNS {result}"),
        " LANGUAGE sql".to_owned(),
    ];
    let volatility = Some(routine.volatility).filter(|of| *of != "VOLATILE");
    let words: Vec<&str> =
        volatility.into_iter().chain(routine.is_strict.then_some("STRICT")).collect();
    if !words.is_empty() {
        lines.push(format!(" {}", words.join(" ")));
    }
    lines.push(match routine.is_expression {
        true => format!("RETURN {}", routine.body),
        false => {
            let mut tag = "$function".to_owned();
            while routine.body.contains(&tag) {
                tag.push('x');
            }
            format!("AS {tag}${}{tag}$", routine.body)
        }
    });
    format!("{}\n", lines.join("\n")).into()
}

//! Functions that need certain literals as arguments, and functions that are not called.

/// Literals that a function needs at a place: its name, the place, and the literals.
const WORDS: &[(&str, usize, &[&str])] = &[
    ("date_part", 0, UNITS),
    ("date_trunc", 0, TRUNCATIONS),
    ("date_diff", 0, &["'day'", "'month'", "'year'", "'hour'", "'week'", "'quarter'"]),
    ("date_sub", 0, &["'day'", "'month'", "'year'", "'hour'", "'week'", "'quarter'"]),
    ("to_char", 1, &["'YYYY-MM-DD HH24:MI:SS'", "'999.99'", "'Day, DD Mon'", "''"]),
    ("strftime", 1, &["'%Y-%m-%d %H:%M:%S'", "'%a %j %U'", "''"]),
    ("strptime", 0, &["'2024-02-29 01:02'", "'x'", "NULL", "''"]),
    ("strptime", 1, &["'%Y-%m-%d %H:%M'", "'%d'"]),
    ("try_strptime", 0, &["'2024-02-29 01:02'", "'x'", "NULL", "''"]),
    ("try_strptime", 1, &["'%Y-%m-%d %H:%M'", "'%d'"]),
    ("to_date", 0, &["'2024-02-29'", "'x'", "NULL", "''"]),
    ("to_date", 1, &["'YYYY-MM-DD'"]),
    ("to_number", 0, &["'1,234.5'", "'-12'", "'<3>'", "''", "'x'", "NULL"]),
    ("to_number", 1, &["'9G999D9'", "'S99'", "'9PR'", "''"]),
    ("convert_from", 1, ENCODINGS),
    ("convert_to", 1, ENCODINGS),
    ("convert", 1, ENCODINGS),
    ("convert", 2, ENCODINGS),
    ("encode", 1, &["'hex'", "'base64'", "'escape'", "'x'"]),
    ("decode", 0, &["'4142'", "'QUI='", "''", "'x'", "NULL"]),
    ("decode", 1, &["'hex'", "'base64'", "'escape'"]),
    ("from_base64", 0, &["'QUI='", "''", "'?'", "NULL"]),
    ("unhex", 0, &["'4142'", "''", "'x'", "NULL", "'ABC'"]),
    ("unbin", 0, &["'0101'", "''", "'2'", "NULL"]),
    ("regexp_count", 1, PATTERNS),
    ("regexp_extract", 1, PATTERNS),
    ("regexp_extract_all", 1, PATTERNS),
    ("regexp_full_match", 1, PATTERNS),
    ("regexp_instr", 1, PATTERNS),
    ("regexp_like", 1, PATTERNS),
    ("regexp_match", 1, PATTERNS),
    ("regexp_match_list", 1, PATTERNS),
    ("regexp_match_list", 2, &["'g'", "'i'", "''"]),
    ("regexp_matches", 1, PATTERNS),
    ("regexp_replace", 1, PATTERNS),
    ("regexp_replace", 2, &["'<\\1>'", "''", "'\\\\'", "NULL"]),
    ("regexp_replace", 3, &["'g'", "'i'", "''"]),
    ("regexp_split_to_array", 1, PATTERNS),
    ("regexp_substr", 1, PATTERNS),
    ("string_split_regex", 1, PATTERNS),
    ("format", 0, &["'%s|%s'"]),
    ("printf", 0, &["'%d|%s'"]),
    ("json_extract", 1, PATHS),
    ("json_extract_string", 1, PATHS),
    ("json_exists", 1, PATHS),
    ("json_value", 1, PATHS),
    ("json_get", 1, &["'a'", "0", "NULL", "'x'", "-1"]),
    ("json_get_text", 1, &["'a'", "0", "NULL", "'x'", "-1"]),
    ("json_subscript", 1, &["'a'", "0", "NULL", "'x'", "-1"]),
    ("jsonpath_cast", 0, SQL_PATHS),
    ("jsonb_path_exists", 1, SQL_PATHS),
    ("jsonb_path_exists_opr", 1, SQL_PATHS),
    ("jsonb_path_match", 1, SQL_PATHS),
    ("jsonb_path_match_opr", 1, SQL_PATHS),
    ("jsonb_path_query_array", 1, SQL_PATHS),
    ("jsonb_path_query_first", 1, SQL_PATHS),
    ("jsonb_path_query_list", 1, SQL_PATHS),
    ("jsonb_delete", 1, &["'a'", "0", "'x'", "-1"]),
    ("timezone", 0, &["'UTC'", "'Europe/Berlin'", "'x'"]),
    ("normalize", 1, &["NFC", "NFD", "NFKC", "NFKD"]),
    ("is_normalized", 1, &["'NFC'", "'NFD'", "'NFKC'", "'NFKD'"]),
    ("unistr", 0, &["'d\\0061t\\+000061'", "'\\D83D'", "'a'", "''", "NULL"]),
    ("jsonb_set_lax", 4, &["'use_json_null'", "'delete_key'", "'x'"]),
    ("list_aggregate", 1, &["'sum'", "'min'", "'count'", "'avg'", "'first'"]),
    ("to_timestamp", 1, &["'YYYY-MM-DD'"]),
    ("pg_sleep", 0, &["0", "0.001", "-1", "NULL"]),
    ("pg_size_bytes", 0, &["'1 kB'", "'2 MB'", "'x'", "'3'", "NULL", "'-1 GB'", "'1.5 TB'"]),
    ("repeat", 1, &["3", "0", "-1", "NULL", "9223372036854775807"]),
    ("range", 1, COUNTS),
    ("generate_series", 1, COUNTS),
    ("array_repeat", 1, COUNTS),
    ("array_resize", 1, &["3", "0", "-2", "NULL"]),
    ("array_fill", 1, &["[3]", "[0]", "[-1]", "[100000000000]"]),
    ("approx_quantile", 1, FRACTIONS),
    ("approx_percentile_cont", 1, FRACTIONS),
    ("percentile_cont", 1, FRACTIONS),
    ("quantile_disc", 1, FRACTIONS),
    ("approx_percentile_cont_with_weight", 2, FRACTIONS),
    ("string_agg", 1, SEPARATORS),
    ("group_concat", 1, SEPARATORS),
    ("listagg", 1, SEPARATORS),
    ("max", 1, LENGTHS),
    ("min", 1, LENGTHS),
    ("max_n", 1, LENGTHS),
    ("min_n", 1, LENGTHS),
    ("arg_max", 2, LENGTHS),
    ("arg_min", 2, LENGTHS),
    ("nth_value", 1, LENGTHS),
];

const UNITS: &[&str] = &[
    "'year'",
    "'month'",
    "'day'",
    "'hour'",
    "'minute'",
    "'second'",
    "'quarter'",
    "'week'",
    "'dow'",
    "'doy'",
    "'isodow'",
    "'isoyear'",
    "'epoch'",
    "'century'",
    "'decade'",
    "'millennium'",
    "'millisecond'",
    "'microsecond'",
    "'nothing'",
];
const TRUNCATIONS: &[&str] = &[
    "'month'",
    "'year'",
    "'day'",
    "'hour'",
    "'minute'",
    "'second'",
    "'quarter'",
    "'week'",
    "'millisecond'",
    "'microsecond'",
    "'decade'",
    "'century'",
    "'nothing'",
    "NULL",
];
const PATTERNS: &[&str] = &["'([a-z])o'", "'o'", "''", "'x*'", "'('", "NULL", "'\u{20ac}'"];
const ENCODINGS: &[&str] = &["'UTF8'", "'LATIN1'", "'WIN1252'", "'x'", "NULL"];
const SQL_PATHS: &[&str] =
    &["'$.a'", "'$.a[*] ? (@ > 1)'", "'strict $.x'", "'$.a > 1'", "'$.size()'", "'('", "NULL"];
const PATHS: &[&str] = &["'$.a'", "'$.a[0]'", "'$'", "'$.*'", "'a'", "NULL"];
const COUNTS: &[&str] = &["3", "0", "-2", "NULL", "9223372036854775807"];
const FRACTIONS: &[&str] = &["0.5", "0.0", "1.0", "0.3"];
const SEPARATORS: &[&str] = &["','", "''"];
const LENGTHS: &[&str] = &["2", "1"];

/// Functions that are not called: no other database has their results, the results differ from call
/// to call, or they are names of types.
const LEFT_OUT: &[&str] = &[
    "arrow_field",
    "arrow_metadata",
    "arrow_typeof",
    "cast_to_type",
    "clock_timestamp",
    "current_date",
    "current_schema",
    "current_schemas",
    "current_time",
    "error",
    "file_row_index",
    "gen_random_uuid",
    "input_file_name",
    "localtimestamp",
    "now",
    "random",
    "today",
    "transaction_timestamp",
    "try_cast_to_type",
    "uuid",
    "uuidv7",
    "version",
];

/// Returns the literals that a function needs as its argument at `place`; `None` if it takes any
/// value there.
#[must_use]
pub fn words(name: &str, place: usize) -> Option<&'static [&'static str]> {
    let found = WORDS.iter().find(|(of, at, _)| *of == name && *at == place);
    found.map(|(_, _, words)| *words)
}

/// True for a function that is not called.
#[must_use]
pub fn is_left_out(name: &str) -> bool {
    LEFT_OUT.contains(&name)
}

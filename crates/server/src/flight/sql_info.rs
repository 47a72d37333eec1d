//! The properties of the server, and the types of its columns.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity as Case,
    SqlSupportedTransaction, SqlTransactionIsolationLevel as Isolation, XdbcDataType as Type,
    XdbcDatetimeSubcode,
};

use super::rows::failure_of;
use crate::failure::Failure;

/// Version of Arrow's Rust libraries.
const ARROW_VERSION: &str = "59";

/// Returns the properties of the server.
///
/// # Errors
/// Errors of Arrow.
pub(super) fn properties() -> Result<&'static SqlInfoData, Failure> {
    static PROPERTIES: OnceLock<SqlInfoData> = OnceLock::new();
    if let Some(properties) = PROPERTIES.get() {
        return Ok(properties);
    }
    let built = build().build().map_err(failure_of)?;
    Ok(PROPERTIES.get_or_init(|| built))
}

/// Boolean properties.
const TRUTHS: [(SqlInfo, bool); 32] = [
    (SqlInfo::FlightSqlServerReadOnly, false),
    (SqlInfo::FlightSqlServerSql, true),
    (SqlInfo::FlightSqlServerSubstrait, false),
    (SqlInfo::FlightSqlServerCancel, true),
    (SqlInfo::FlightSqlServerBulkIngestion, true),
    (SqlInfo::FlightSqlServerIngestTransactionsSupported, true),
    (SqlInfo::SqlDdlCatalog, false),
    (SqlInfo::SqlDdlSchema, true),
    (SqlInfo::SqlDdlTable, true),
    (SqlInfo::SqlAllTablesAreSelectable, false),
    (SqlInfo::SqlSupportsColumnAliasing, true),
    (SqlInfo::SqlNullPlusNullIsNull, true),
    (SqlInfo::SqlSupportsTableCorrelationNames, true),
    (SqlInfo::SqlSupportsDifferentTableCorrelationNames, false),
    (SqlInfo::SqlSupportsExpressionsInOrderBy, true),
    (SqlInfo::SqlSupportsOrderByUnrelated, true),
    (SqlInfo::SqlSupportsLikeEscapeClause, true),
    (SqlInfo::SqlSupportsNonNullableColumns, true),
    (SqlInfo::SqlSupportsIntegrityEnhancementFacility, false),
    (SqlInfo::SqlCatalogAtStart, true),
    (SqlInfo::SqlSelectForUpdateSupported, false),
    (SqlInfo::SqlStoredProceduresSupported, false),
    (SqlInfo::SqlCorrelatedSubqueriesSupported, true),
    (SqlInfo::SqlMaxRowSizeIncludesBlobs, true),
    (SqlInfo::SqlTransactionsSupported, true),
    (SqlInfo::SqlDataDefinitionCausesTransactionCommit, false),
    (SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false),
    (SqlInfo::SqlBatchUpdatesSupported, true),
    (SqlInfo::SqlSavepointsSupported, true),
    (SqlInfo::SqlNamedParametersSupported, false),
    (SqlInfo::SqlLocatorsUpdateCopy, false),
    (SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported, false),
];

/// Properties that are a number, or a bit set of numbers.
const NUMBERS_AND_SETS: [(SqlInfo, i32); 19] = [
    (SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Savepoint as i32),
    (SqlInfo::FlightSqlServerStatementTimeout, 0),
    (SqlInfo::FlightSqlServerTransactionTimeout, 0),
    (SqlInfo::SqlIdentifierCase, Case::SqlCaseSensitivityLowercase as i32),
    (SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32),
    (SqlInfo::SqlSupportedGroupBy, bits(&[0, 1])),
    (SqlInfo::SqlSupportedGrammar, bits(&[0, 1])),
    (SqlInfo::SqlAnsi92SupportedLevel, bits(&[0])),
    (SqlInfo::SqlOuterJoinsSupportLevel, bits(&[1, 2])),
    (SqlInfo::SqlSchemasSupportedActions, bits(&[2])),
    (SqlInfo::SqlCatalogsSupportedActions, 0),
    (SqlInfo::SqlSupportedPositionedCommands, 0),
    (SqlInfo::SqlSupportedSubqueries, bits(&[0, 1, 2, 3])),
    (SqlInfo::SqlSupportedUnions, bits(&[0, 1])),
    // Levels: read uncommitted, read committed and repeatable read.
    (SqlInfo::SqlSupportedTransactionsIsolationLevels, bits(&[1, 2, 3])),
    // Results are forward-only and read-only.
    (SqlInfo::SqlSupportedResultSetTypes, bits(&[1])),
    (SqlInfo::SqlSupportedConcurrenciesForResultSetForwardOnly, bits(&[1])),
    (SqlInfo::SqlSupportedConcurrenciesForResultSetScrollSensitive, 0),
    (SqlInfo::SqlSupportedConcurrenciesForResultSetScrollInsensitive, 0),
];

/// Text properties.
const TEXTS: [(SqlInfo, &str); 8] = [
    (SqlInfo::FlightSqlServerName, "Terrace"),
    (SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION")),
    (SqlInfo::FlightSqlServerArrowVersion, ARROW_VERSION),
    (SqlInfo::SqlIdentifierQuoteChar, "\""),
    (SqlInfo::SqlSchemaTerm, "schema"),
    (SqlInfo::SqlProcedureTerm, "procedure"),
    (SqlInfo::SqlCatalogTerm, "database"),
    (SqlInfo::SqlExtraNameCharacters, ""),
];

/// Limits; all are reported as 0, since none is known in advance.
const LIMITS: [SqlInfo; 20] = [
    SqlInfo::SqlMaxBinaryLiteralLength,
    SqlInfo::SqlMaxCharLiteralLength,
    SqlInfo::SqlMaxColumnNameLength,
    SqlInfo::SqlMaxColumnsInGroupBy,
    SqlInfo::SqlMaxColumnsInIndex,
    SqlInfo::SqlMaxColumnsInOrderBy,
    SqlInfo::SqlMaxColumnsInSelect,
    SqlInfo::SqlMaxColumnsInTable,
    SqlInfo::SqlMaxConnections,
    SqlInfo::SqlMaxCursorNameLength,
    SqlInfo::SqlMaxIndexLength,
    SqlInfo::SqlDbSchemaNameLength,
    SqlInfo::SqlMaxProcedureNameLength,
    SqlInfo::SqlMaxCatalogNameLength,
    SqlInfo::SqlMaxRowSize,
    SqlInfo::SqlMaxStatementLength,
    SqlInfo::SqlMaxStatements,
    SqlInfo::SqlMaxTableNameLength,
    SqlInfo::SqlMaxTablesInSelect,
    SqlInfo::SqlMaxUsernameLength,
];

/// Returns a bit set of numbers.
const fn bits(numbers: &[u32]) -> i32 {
    let (mut set, mut at) = (0, 0);
    while at < numbers.len() {
        set |= 1 << numbers[at];
        at += 1;
    }
    set
}

fn build() -> SqlInfoDataBuilder {
    let mut of = SqlInfoDataBuilder::new();
    TEXTS.iter().for_each(|(name, value)| of.append(*name, *value));
    TRUTHS.iter().for_each(|(name, value)| of.append(*name, *value));
    NUMBERS_AND_SETS.iter().for_each(|(name, value)| of.append(*name, *value));
    LIMITS.iter().for_each(|name| of.append(*name, 0_i64));
    // The JDBC driver accepts it only as a 64-bit integer.
    let isolation = Isolation::SqlTransactionRepeatableRead as i32;
    of.append(SqlInfo::SqlDefaultTransactionIsolation, i64::from(isolation));
    of.append(SqlInfo::SqlSupportsConvert, BTreeMap::<i32, Vec<i32>>::new());
    of
}

/// Returns the types of columns.
///
/// # Errors
/// Errors of Arrow.
pub(super) fn types() -> Result<&'static XdbcTypeInfoData, Failure> {
    static TYPES: OnceLock<XdbcTypeInfoData> = OnceLock::new();
    if let Some(types) = TYPES.get() {
        return Ok(types);
    }
    let mut builder = XdbcTypeInfoDataBuilder::new();
    all_types().into_iter().for_each(|of| builder.append(of));
    let built = builder.build().map_err(failure_of)?;
    Ok(TYPES.get_or_init(|| built))
}

/// Types of columns: name, type, and precision in digits or length in bytes.
const NUMBERS: [(&str, Type, i32); 7] = [
    ("TINYINT", Type::XdbcTinyint, 3),
    ("SMALLINT", Type::XdbcSmallint, 5),
    ("INTEGER", Type::XdbcInteger, 10),
    ("BIGINT", Type::XdbcBigint, 19),
    ("DECIMAL", Type::XdbcDecimal, 76),
    ("REAL", Type::XdbcReal, 7),
    ("DOUBLE PRECISION", Type::XdbcDouble, 15),
];
const OTHERS: [(&str, Type, i32, Option<XdbcDatetimeSubcode>); 6] = [
    ("BOOLEAN", Type::XdbcBit, 1, None),
    ("TEXT", Type::XdbcVarchar, i32::MAX, None),
    ("BYTEA", Type::XdbcVarbinary, i32::MAX, None),
    ("DATE", Type::XdbcDate, 10, Some(XdbcDatetimeSubcode::XdbcSubcodeYear)),
    ("TIME", Type::XdbcTime, 15, Some(XdbcDatetimeSubcode::XdbcSubcodeTime)),
    ("TIMESTAMP", Type::XdbcTimestamp, 29, Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp)),
];

fn all_types() -> Vec<XdbcTypeInfo> {
    let of = |name: &str, data_type, size| XdbcTypeInfo {
        type_name: name.to_owned(),
        data_type,
        column_size: Some(size),
        literal_prefix: None,
        literal_suffix: None,
        create_params: None,
        nullable: Nullable::NullabilityNullable,
        case_sensitive: data_type == Type::XdbcVarchar,
        searchable: Searchable::Full,
        unsigned_attribute: None,
        fixed_prec_scale: false,
        auto_increment: Some(false),
        local_type_name: Some(name.to_owned()),
        minimum_scale: None,
        maximum_scale: None,
        sql_data_type: data_type,
        datetime_subcode: None,
        num_prec_radix: None,
        interval_precision: None,
    };
    let numbers = NUMBERS.iter().map(|(name, data_type, size)| XdbcTypeInfo {
        unsigned_attribute: Some(false),
        create_params: (*name == "DECIMAL").then(|| vec!["precision".into(), "scale".into()]),
        minimum_scale: (*name == "DECIMAL").then_some(0),
        maximum_scale: (*name == "DECIMAL").then_some(*size),
        num_prec_radix: Some(10),
        ..of(name, *data_type, *size)
    });
    let others = OTHERS.iter().map(|(name, data_type, size, subcode)| {
        let is_quoted = *data_type != Type::XdbcBit;
        XdbcTypeInfo {
            literal_prefix: is_quoted.then(|| "'".to_owned()),
            literal_suffix: is_quoted.then(|| "'".to_owned()),
            datetime_subcode: *subcode,
            ..of(name, *data_type, *size)
        }
    });
    let mut all: Vec<_> = numbers.chain(others).collect();
    // Clients expect the types in this order.
    all.sort_by_key(|of| of.data_type as i32);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_and_types_are_tables() {
        let one = SqlInfo::FlightSqlServerCancel as i32;
        let one = u32::try_from(one).unwrap_or(0);
        let named = properties().ok().and_then(|of| of.record_batch([one]).ok());
        assert_eq!(named.map(|batch| batch.num_rows()), Some(1));
        let all = types().ok().and_then(|of| of.record_batch(None).ok());
        assert_eq!(all.map(|batch| batch.num_rows()), Some(13));
    }
}

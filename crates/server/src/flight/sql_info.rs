//! The properties of the server, and the types of its columns.

use std::sync::OnceLock;

use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction, SqlTransactionIsolationLevel as Isolation, XdbcDataType as Type,
    XdbcDatetimeSubcode,
};

use super::rows::failure_of;
use crate::failure::Failure;

/// The version of Arrow's Rust libraries.
const ARROW_VERSION: &str = "59";

/// The properties of the server.
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

fn build() -> SqlInfoDataBuilder {
    let mut of = SqlInfoDataBuilder::new();
    of.append(SqlInfo::FlightSqlServerName, "Terrace");
    of.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    of.append(SqlInfo::FlightSqlServerArrowVersion, ARROW_VERSION);
    of.append(SqlInfo::FlightSqlServerReadOnly, false);
    of.append(SqlInfo::FlightSqlServerSql, true);
    of.append(SqlInfo::FlightSqlServerSubstrait, false);
    of.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Savepoint as i32);
    of.append(SqlInfo::FlightSqlServerCancel, true);
    of.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    of.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    of.append(SqlInfo::FlightSqlServerStatementTimeout, 0);
    of.append(SqlInfo::FlightSqlServerTransactionTimeout, 0);
    of.append(SqlInfo::SqlDdlCatalog, false);
    of.append(SqlInfo::SqlDdlSchema, true);
    of.append(SqlInfo::SqlDdlTable, true);
    let lower_case = SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase;
    of.append(SqlInfo::SqlIdentifierCase, lower_case as i32);
    of.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    of.append(SqlInfo::SqlAllTablesAreSelectable, false);
    of.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32);
    of.append(SqlInfo::SqlSupportsColumnAliasing, true);
    of.append(SqlInfo::SqlNullPlusNullIsNull, true);
    of.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    of.append(SqlInfo::SqlSupportsIntegrityEnhancementFacility, false);
    of.append(SqlInfo::SqlSchemaTerm, "schema");
    of.append(SqlInfo::SqlCatalogTerm, "database");
    of.append(SqlInfo::SqlCatalogAtStart, true);
    of.append(SqlInfo::SqlSelectForUpdateSupported, false);
    of.append(SqlInfo::SqlStoredProceduresSupported, false);
    of.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    let isolation = Isolation::SqlTransactionRepeatableRead;
    of.append(SqlInfo::SqlDefaultTransactionIsolation, isolation as i32);
    of.append(SqlInfo::SqlTransactionsSupported, true);
    let levels = [
        Isolation::SqlTransactionReadUncommitted,
        Isolation::SqlTransactionReadCommitted,
        Isolation::SqlTransactionRepeatableRead,
    ];
    let levels = levels.into_iter().fold(0, |all, level| all | (1 << (level as i32)));
    of.append(SqlInfo::SqlSupportedTransactionsIsolationLevels, levels);
    of.append(SqlInfo::SqlDataDefinitionCausesTransactionCommit, false);
    of.append(SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false);
    of.append(SqlInfo::SqlBatchUpdatesSupported, true);
    of.append(SqlInfo::SqlSavepointsSupported, true);
    of.append(SqlInfo::SqlNamedParametersSupported, false);
    of
}

/// The types of columns.
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

/// Names, types and digits or bytes of the types of columns.
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
    // As clients expect them.
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

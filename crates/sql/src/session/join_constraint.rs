//! The condition of a parsed join.

use datafusion::sql::sqlparser::ast::{JoinConstraint, JoinOperator};

macro_rules! constraint_of {
    ($operator:expr) => {
        match $operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint)
            | JoinOperator::CrossJoin(constraint)
            | JoinOperator::Semi(constraint)
            | JoinOperator::LeftSemi(constraint)
            | JoinOperator::RightSemi(constraint)
            | JoinOperator::Anti(constraint)
            | JoinOperator::LeftAnti(constraint)
            | JoinOperator::RightAnti(constraint) => Some(constraint),
            _ => None,
        }
    };
}

/// Returns the condition of a join: ON, USING, NATURAL or none. `None` for kinds of joins that are
/// not listed above, such as ASOF.
pub(super) fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    constraint_of!(operator)
}

/// As [`constraint`], for modification.
pub(super) fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    constraint_of!(operator)
}

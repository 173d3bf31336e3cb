//! Reports of the core and the messages that show them.

/// Converts both ways between two types whose fields have the same names and types, but for those
/// after the semicolon, which are lists of such types.
macro_rules! mirror {
    ($report:ident, $status:ident { $($field:ident),* ; $($list:ident),* }) => {
        impl From<$report> for wire::$status {
            fn from(report: $report) -> Self {
                Self { $($field: report.$field,)* $($list: all(report.$list),)* }
            }
        }

        impl From<wire::$status> for $report {
            fn from(status: wire::$status) -> Self {
                Self { $($field: status.$field,)* $($list: all(status.$list),)* }
            }
        }
    };
}

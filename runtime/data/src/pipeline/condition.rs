//! What is true of a record.

use serde::{Deserialize, Serialize};

use super::Value;

/// What is true of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub enum Condition {
    /// All of these.
    All(Vec<Self>),
    /// At least one of these.
    Any(Vec<Self>),
    /// Anything but this. What is neither true nor false of null stays so.
    Not(Box<Self>),
    /// A column's value passes a test.
    Column {
        /// The column.
        column: String,
        /// The test.
        test: Test,
    },
}

/// A test of a value. But for [`Test::IsNull`], null passes none.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Equal to this.
    Is(Value),
    /// Different from this.
    IsNot(Value),
    /// Less than this.
    Below(Value),
    /// This or less.
    AtMost(Value),
    /// More than this.
    Above(Value),
    /// This or more.
    AtLeast(Value),
    /// One of these.
    In(Vec<Value>),
    /// Whether it is null.
    IsNull(bool),
    /// Text that begins so.
    StartsWith(String),
    /// Text that ends so.
    EndsWith(String),
    /// Text in which this stands.
    Contains(String),
}

/// A condition as it is written: one key says which kind it is.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(skip_serializing_if = "Option::is_none")]
    all: Option<Vec<Condition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    any: Option<Vec<Condition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not: Option<Box<Condition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_not: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    below: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    above: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<Value>,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    one_of: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_null: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    starts_with: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_with: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contains: Option<String>,
}

/// What a condition without exactly one test is told.
const ONE_TEST: &str = "a condition on a column has exactly one of `is`, `is_not`, `below`, \
     `at_most`, `above`, `at_least`, `in`, `is_null`, `starts_with`, `ends_with`, `contains`";

/// What a condition of no kind, or of several, is told.
const ONE_KIND: &str =
    "a condition has exactly one of `all`, `any`, `not`, `column` (with a test beside it)";

impl TryFrom<Form> for Condition {
    type Error = &'static str;

    fn try_from(mut form: Form) -> Result<Self, Self::Error> {
        let mut kinds = Vec::new();
        kinds.extend(form.all.take().map(Self::All));
        kinds.extend(form.any.take().map(Self::Any));
        kinds.extend(form.not.take().map(Self::Not));
        let column = form.column.take();
        let mut tests = form.tests();
        if let Some(column) = column {
            let (Some(test), true) = (tests.pop(), tests.is_empty()) else {
                return Err(ONE_TEST);
            };
            kinds.push(Self::Column { column, test });
        }
        match (kinds.pop(), kinds.is_empty() && tests.is_empty()) {
            (Some(condition), true) => Ok(condition),
            (_, _) => Err(ONE_KIND),
        }
    }
}

impl Form {
    fn tests(self) -> Vec<Test> {
        let tests = [
            self.is.map(Test::Is),
            self.is_not.map(Test::IsNot),
            self.below.map(Test::Below),
            self.at_most.map(Test::AtMost),
            self.above.map(Test::Above),
            self.at_least.map(Test::AtLeast),
            self.one_of.map(Test::In),
            self.is_null.map(Test::IsNull),
            self.starts_with.map(Test::StartsWith),
            self.ends_with.map(Test::EndsWith),
            self.contains.map(Test::Contains),
        ];
        tests.into_iter().flatten().collect()
    }
}

impl From<Condition> for Form {
    fn from(condition: Condition) -> Self {
        let empty = Self::default();
        match condition {
            Condition::All(of) => Self { all: Some(of), ..empty },
            Condition::Any(of) => Self { any: Some(of), ..empty },
            Condition::Not(of) => Self { not: Some(of), ..empty },
            Condition::Column { column, test } => {
                let column = Some(column);
                match test {
                    Test::Is(value) => Self { column, is: Some(value), ..empty },
                    Test::IsNot(value) => Self { column, is_not: Some(value), ..empty },
                    Test::Below(value) => Self { column, below: Some(value), ..empty },
                    Test::AtMost(value) => Self { column, at_most: Some(value), ..empty },
                    Test::Above(value) => Self { column, above: Some(value), ..empty },
                    Test::AtLeast(value) => Self { column, at_least: Some(value), ..empty },
                    Test::In(values) => Self { column, one_of: Some(values), ..empty },
                    Test::IsNull(is) => Self { column, is_null: Some(is), ..empty },
                    Test::StartsWith(text) => Self { column, starts_with: Some(text), ..empty },
                    Test::EndsWith(text) => Self { column, ends_with: Some(text), ..empty },
                    Test::Contains(text) => Self { column, contains: Some(text), ..empty },
                }
            }
        }
    }
}

impl Condition {
    /// A test of a column's value.
    pub fn column(column: impl Into<String>, test: Test) -> Self {
        Self::Column { column: column.into(), test }
    }
}

//! JSON form of message fields in `verbatim.report.v1` and in the files of a run.

/// Returns whether the JSON omits a count.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(crate) fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Defines a module that serializes a required enumeration by its name.
macro_rules! named {
    ($module:ident, $of:ident) => {
        pub(crate) mod $module {
            use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

            use crate::v1::$of;

            #[allow(clippy::trivially_copy_pass_by_ref)]
            pub(crate) fn serialize<S: Serializer>(value: &i32, serializer: S) -> Result<S::Ok, S::Error> {
                $of::try_from(*value).unwrap_or_default().serialize(serializer)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
                $of::deserialize(deserializer).map(i32::from)
            }
        }
    };
}

named!(outcome, Outcome);
named!(check_result, CheckResult);

/// Serializes a cause by its name, or as null.
pub(crate) mod cause {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::v1::Cause;

    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(crate) fn serialize<S: Serializer>(value: &i32, serializer: S) -> Result<S::Ok, S::Error> {
        let cause = Cause::try_from(*value).unwrap_or_default();
        (cause != Cause::Unspecified).then_some(cause).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
        Option::<Cause>::deserialize(deserializer).map(|cause| cause.unwrap_or_default().into())
    }
}

/// Serializes a text with JSON as the JSON value.
pub(crate) mod json_text {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use serde_json::Value;

    pub(crate) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<Value>(text)
            .unwrap_or_default()
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        Value::deserialize(deserializer).map(|value| value.to_string())
    }
}

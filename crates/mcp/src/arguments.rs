//! The arguments of a tool. A wrong argument is a text that the agent can act on.

use serde_json::{Map, Value};

use crate::limits::ID_BYTES_MAX;

/// The arguments of one call.
pub struct Arguments<'a>(pub &'a Map<String, Value>);

impl<'a> Arguments<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns a text, if it is given.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("{name} must be a string")),
        }
    }

    /// Returns a text that must be given.
    pub fn required(&self, name: &str) -> Result<&'a str, String> {
        self.text(name)?.ok_or_else(|| format!("{name} is required"))
    }

    /// Returns the id of a resource that must be given.
    pub fn id(&self, name: &str) -> Result<&'a str, String> {
        checked_id(name, self.required(name)?)
    }

    /// Returns the id of a resource, if it is given.
    pub fn some_id(&self, name: &str) -> Result<Option<&'a str>, String> {
        self.text(name)?.map(|id| checked_id(name, id)).transpose()
    }

    /// Returns a whole number, if it is given. Models also write numbers as text.
    pub fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let whole = match value {
            Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        whole.map(Some).ok_or_else(|| format!("{name} must be a whole number, 0 or more"))
    }

    /// Returns yes or no, if it is given.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(format!("{name} must be true or false")),
        }
    }

    /// Copies arguments that the API checks itself into a body.
    pub fn copy(&self, names: &[&str], body: &mut Map<String, Value>) {
        for name in names {
            if let Some(value) = self.get(name) {
                body.insert((*name).to_owned(), value.clone());
            }
        }
    }
}

fn whole(number: f64) -> Option<u64> {
    // Larger numbers have no exact form as a float.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    ((0.0..EXACT_MAX).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// Refuses ids that could lead to another route. They never reach the API.
pub fn checked_id<'a>(name: &str, id: &'a str) -> Result<&'a str, String> {
    let bad = |letter: char| "/\\?#%&".contains(letter) || letter.is_whitespace() || letter.is_control();
    if id.is_empty() || id.len() > ID_BYTES_MAX || id.contains(bad) || id.contains("..") {
        let shown: String = id.chars().take(40).collect();
        return Err(format!(
            "{name} {shown:?} is not an id: use one that another tool returned, at most {ID_BYTES_MAX} characters \
             without / \\ ? # % & .. or white space"
        ));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_that_lead_elsewhere_are_refused() {
        let long = "x".repeat(ID_BYTES_MAX + 1);
        for bad in
            ["", "a/b", "a\\b", "a?b", "a#b", "a%2fb", "a&b", "a b", "a\tb", "a\u{a0}b", "..", "a..b", "a\0", &long]
        {
            assert!(checked_id("sandbox_id", bad).unwrap_err().contains("sandbox_id"), "{bad:?}");
        }
        for good in ["a", "9a035758-0000", "prc_1", "a.b", &long[1..]] {
            assert_eq!(checked_id("x", good), Ok(good));
        }
    }

    #[test]
    fn numbers_come_in_many_forms() {
        let arguments = json!({"a": 5, "b": 5.0, "c": "5", "d": -1, "e": 1.5, "f": "x", "g": null, "h": 1e300});
        let arguments = Arguments(arguments.as_object().unwrap());
        for name in ["a", "b", "c"] {
            assert_eq!(arguments.number(name), Ok(Some(5)));
        }
        for name in ["d", "e", "f", "h"] {
            assert!(arguments.number(name).is_err(), "{name}");
        }
        assert_eq!((arguments.number("g"), arguments.number("none")), (Ok(None), Ok(None)));
    }
}

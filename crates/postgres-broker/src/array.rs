//! Array literals of PostgreSQL: `{1,NULL,"a b"}` to JSON and back.

use serde::{
    Deserializer as _,
    de::{SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    catalog::Scalar,
    fault::BrokerFault,
    limits,
    param::{self, JsonParam},
    value,
};

/// How the elements of an array look.
#[derive(Clone, Copy)]
pub(crate) struct ArrayForm {
    pub scalar: Scalar,
    pub delimiter: u8,
}

/// Appends an array literal as nested JSON arrays. One that cannot be read becomes a string.
pub(crate) fn write(out: &mut Vec<u8>, text: &str, form: ArrayForm) {
    let before = out.len();
    // Also one whose indexes do not begin with 1, `[0:1]={7,8}`: a JSON array would lose them.
    if read(out, text, form).is_none() {
        out.truncate(before);
        value::write_text(out, text);
    }
}

/// Reads a literal from its first brace to its last.
fn read(out: &mut Vec<u8>, literal: &str, form: ArrayForm) -> Option<()> {
    let bytes = literal.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        match *bytes.get(at)? {
            b'{' if depth < limits::ARRAY_DEPTH_MAX => {
                (depth, at) = (depth + 1, at + 1);
                out.push(b'[');
                // A brace that closes at once has no element in it.
                if bytes.get(at) != Some(&b'}') {
                    continue;
                }
            }
            b'{' => return None,
            _ if depth == 0 => return None,
            b'"' => at = read_quoted(out, literal, at + 1, form.scalar)?,
            _ => at = read_plain(out, literal, at, form)?,
        }
        while bytes.get(at) == Some(&b'}') {
            (depth, at) = (depth.checked_sub(1)?, at + 1);
            out.push(b']');
        }
        match bytes.get(at) {
            None => return (depth == 0).then_some(()),
            Some(byte) if *byte == form.delimiter && depth > 0 => at += 1,
            Some(_) => return None,
        }
        out.push(b',');
    }
}

/// Reads an element after its quote, and returns where it ends.
fn read_quoted(out: &mut Vec<u8>, literal: &str, from: usize, scalar: Scalar) -> Option<usize> {
    let mut element = String::new();
    let mut rest = literal.get(from..)?.char_indices();
    while let Some((index, letter)) = rest.next() {
        match letter {
            '"' => {
                value::write_scalar(out, scalar, &element);
                return Some(from + index + 1);
            }
            '\\' => element.push(rest.next()?.1),
            _ => element.push(letter),
        }
    }
    None
}

/// Reads an element without quotes, and returns where it ends.
fn read_plain(out: &mut Vec<u8>, literal: &str, from: usize, form: ArrayForm) -> Option<usize> {
    let rest = &literal.as_bytes()[from..];
    let length = rest.iter().position(|byte| *byte == form.delimiter || *byte == b'}')?;
    let element = literal.get(from..from + length).filter(|element| !element.is_empty())?;
    match element {
        "NULL" => out.extend_from_slice(b"null"),
        _ => value::write_scalar(out, form.scalar, element),
    }
    Some(from + length)
}

/// Writes a JSON array as an array literal.
pub(crate) fn literal(json: &RawValue, form: ArrayForm) -> Result<String, BrokerFault> {
    let mut out = String::new();
    write_literal(&mut out, json, form, limits::ARRAY_DEPTH_MAX)?;
    Ok(out)
}

fn write_literal(out: &mut String, json: &RawValue, form: ArrayForm, depth_left: usize) -> Result<(), BrokerFault> {
    if depth_left == 0 {
        let error = format!("an array parameter has more than {} dimensions", limits::ARRAY_DEPTH_MAX);
        return Err(BrokerFault::bad(error).with_code("54000"));
    }
    out.push('{');
    let (mut is_first, mut outcome) = (true, Ok(()));
    let elements = Elements(|element: &RawValue| {
        if !std::mem::take(&mut is_first) {
            out.push(char::from(form.delimiter));
        }
        outcome = write_element(out, element, form, depth_left);
        outcome.is_ok()
    });
    let read = serde_json::Deserializer::from_str(json.get()).deserialize_seq(elements);
    outcome?;
    read.map_err(|_| BrokerFault::bad("a parameter is not valid JSON"))?;
    out.push('}');
    Ok(())
}

fn write_element(out: &mut String, element: &RawValue, form: ArrayForm, depth_left: usize) -> Result<(), BrokerFault> {
    match (JsonParam::of(element), form.scalar) {
        (JsonParam::Null, _) => out.push_str("NULL"),
        // The elements of an array of JSON values are JSON themselves.
        (JsonParam::Array, Scalar::Json) => quote(out, element.get()),
        (JsonParam::Array, _) => write_literal(out, element, form, depth_left - 1)?,
        _ => quote(out, &param::plain_text(element)?),
    }
    Ok(())
}

/// Hands out the elements of a JSON array one by one: a list of them would be larger than the text.
/// Ends when the function returns false.
struct Elements<F>(F);

impl<'de, F: FnMut(&'de RawValue) -> bool> Visitor<'de> for Elements<F> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            if !(self.0)(element) {
                break;
            }
        }
        Ok(())
    }
}

fn quote(out: &mut String, element: &str) {
    out.push('"');
    for letter in element.chars() {
        if matches!(letter, '"' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, scalar: Scalar, json: &str) {
        let mut out = Vec::new();
        write(&mut out, text, ArrayForm { scalar, delimiter: b',' });
        assert_eq!(String::from_utf8(out).unwrap(), json, "{text}");
    }

    #[test]
    fn literals_become_json() {
        check("{1,NULL,3}", Scalar::Number, "[1,null,3]");
        check("{}", Scalar::Number, "[]");
        check("[0:1]={7,8}", Scalar::Number, "\"[0:1]={7,8}\"");
        check("{{1,2},{3,4}}", Scalar::Number, "[[1,2],[3,4]]");
        check(r#"{"a \"b\" \\",NULL,"NULL",ä}"#, Scalar::Text, r#"["a \"b\" \\",null,"NULL","ä"]"#);
        check(r#"{"{\"a\": 1}"}"#, Scalar::Json, r#"[{"a": 1}]"#);
    }

    #[test]
    fn broken_literals_become_strings() {
        for broken in ["", "{", "}", "{1", "{1,}", "{,}", "{1}}", "{1}x", "{{{{{{{1}}}}}}}", "{\"a", "{\"a\\"] {
            let mut json = Vec::new();
            value::write_text(&mut json, broken);
            check(broken, Scalar::Number, &String::from_utf8(json).unwrap());
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_valid_json(text in "[{}\",\\\\a1ä=\\[\\]]{0,24}") {
            let mut out = Vec::new();
            write(&mut out, &text, ArrayForm { scalar: Scalar::Number, delimiter: b',' });
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok(), "{text}");
        }

        #[test]
        fn strings_come_back(strings in prop::collection::vec(any::<Option<String>>(), 0..5)) {
            let json = serde_json::value::to_raw_value(&strings).unwrap();
            let form = ArrayForm { scalar: Scalar::Text, delimiter: b',' };
            let mut out = Vec::new();
            write(&mut out, &literal(&json, form).unwrap(), form);
            prop_assert_eq!(serde_json::from_slice::<Vec<Option<String>>>(&out).unwrap(), strings);
        }
    }
}

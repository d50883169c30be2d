//! The core of the Python SDK. It must be quick to import, so it defines dictionaries with known
//! keys and plain functions, and works with Python 3.9.

use std::fmt::Write as _;

use super::{
    COLUMNS_MAX, MARK,
    document::{ApiAnswer, ApiBody, ApiDocument, ApiField, ApiModel, ApiOperation, ApiType},
    wrap,
};

/// Names that are keywords or hide something of the language.
const TAKEN: [&str; 7] = ["from", "id", "type", "format", "class", "import", "with"];

/// What the functions import. Types are imported for checkers only, because that takes time.
const OPERATIONS_HEAD: &str = r#""""A function for each operation of the API. It describes the request; a transport sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from .call import (
    BytesCall,
    EmptyCall,
    EventsCall,
    JsonCall,
    SocketCall,
    TextCall,
    segment,
)

if TYPE_CHECKING:
    from . import models
    from .call import RequestBytes, RequestForm
"#;

/// Writes the types.
pub fn models(api: &ApiDocument) -> String {
    let mut out = format!(
        "# {MARK}\n\"\"\"The objects of the API, as they are on the wire.\"\"\"\n\nfrom __future__ import \
         annotations\n\nfrom typing import Any, Literal, TypedDict\n\n"
    );
    let names: Vec<String> = api.models.iter().map(|model| format!("    \"{}\",\n", model.name)).collect();
    let _ = writeln!(out, "__all__ = [\n{}]", names.concat());
    for model in &api.models {
        write_model(&mut out, model);
    }
    if !out.contains("Literal[") {
        out = out.replace("from typing import Any, Literal, TypedDict", "from typing import Any, TypedDict");
    }
    out
}

fn write_model(out: &mut String, model: &ApiModel) {
    let (needed, optional): (Vec<_>, Vec<_>) = model.fields.iter().partition(|field| field.required);
    let class = |out: &mut String, head: &str, fields: &[&ApiField], described: bool| {
        let _ = writeln!(out, "\n\nclass {head}:");
        let has_text = described && !model.description.is_empty();
        if has_text {
            write_docstring(out, &model.description, "", 4);
            out.push_str(if fields.is_empty() { "" } else { "\n" });
        }
        for field in fields {
            for line in wrap(&field.description, 6) {
                let _ = writeln!(out, "    # {line}");
            }
            let _ = writeln!(out, "    {}: {}", field.name, spelled(&field.kind));
        }
        if fields.is_empty() && !has_text {
            let _ = writeln!(out, "    pass");
        }
    };
    let name = &model.name;
    // Names of keys that are keywords need the other form.
    if model.fields.iter().any(|field| matches!(field.name.as_str(), "from" | "class" | "import")) {
        let key = |field: &ApiField| format!("        \"{}\": \"{}\",\n", field.name, spelled(&field.kind));
        let keys: String = model.fields.iter().map(key).collect();
        let total = if optional.is_empty() { "" } else { "    total=False,\n" };
        out.push_str("\n\n");
        for line in wrap(&model.description, 2) {
            let _ = writeln!(out, "# {line}");
        }
        let _ = write!(out, "{name} = TypedDict(\n    \"{name}\",\n    {{\n{keys}    }},\n{total})\n");
        return;
    }
    match (needed.is_empty(), optional.is_empty()) {
        (true, _) => class(out, &format!("{name}(TypedDict, total=False)"), &optional, true),
        (false, true) => class(out, &format!("{name}(TypedDict)"), &needed, true),
        (false, false) => {
            class(out, &format!("_{name}Required(TypedDict)"), &needed, false);
            class(out, &format!("{name}(_{name}Required, total=False)"), &optional, true);
        }
    }
}

/// Writes the functions.
pub fn operations(api: &ApiDocument) -> String {
    let mut out = format!("# {MARK}\n{OPERATIONS_HEAD}");
    for operation in &api.operations {
        write_operation(&mut out, operation);
    }
    out
}

fn write_operation(out: &mut String, operation: &ApiOperation) {
    let mut arguments: Vec<String> =
        operation.in_path.iter().map(|field| format!("{}: {}", argument(&field.name), spelled(&field.kind))).collect();
    let body = match &operation.body {
        ApiBody::None => None,
        ApiBody::Json { kind, required: true } => Some(format!("body: {}", outer(kind))),
        ApiBody::Json { kind, required: false } => Some(format!("body: {} | None = None", outer(kind))),
        ApiBody::Bytes => Some("body: RequestBytes".to_owned()),
        ApiBody::Form => Some("body: RequestForm".to_owned()),
    };
    arguments.extend(body);
    if !operation.in_query.is_empty() {
        arguments.push("*".to_owned());
    }
    for field in &operation.in_query {
        let (name, kind) = (argument(&field.name), outer(&field.kind));
        arguments.push(if field.required {
            format!("{name}: {kind}")
        } else {
            format!("{name}: {kind} | None = None")
        });
    }
    let answer = match &operation.answer {
        ApiAnswer::None => "EmptyCall".to_owned(),
        ApiAnswer::Json(kind) => format!("JsonCall[{}]", outer(kind)),
        ApiAnswer::Text => "TextCall".to_owned(),
        ApiAnswer::Bytes => "BytesCall".to_owned(),
        ApiAnswer::Events(_) => "EventsCall".to_owned(),
        ApiAnswer::WebSocket => "SocketCall".to_owned(),
    };
    let name = snake(&operation.name);
    let line = format!("def {name}({}) -> {answer}:", arguments.join(", "));
    if line.len() <= COLUMNS_MAX {
        let _ = writeln!(out, "\n\n{line}");
    } else {
        let _ = writeln!(out, "\n\ndef {name}(\n    {},\n) -> {answer}:", arguments.join(",\n    "));
    }
    let described = match &operation.answer {
        ApiAnswer::Events(events) if !events.is_empty() => {
            let named: Vec<String> =
                events.iter().map(|(name, kind)| format!("`{name}` ({})", spelled(kind))).collect();
            format!("{} Events: {}.", operation.description, named.join(", "))
        }
        _ => operation.description.clone(),
    };
    write_docstring(out, &operation.summary, described.trim(), 4);
    write_call(out, operation);
}

fn write_call(out: &mut String, operation: &ApiOperation) {
    let class = match &operation.answer {
        ApiAnswer::None => "EmptyCall",
        ApiAnswer::Json(_) => "JsonCall",
        ApiAnswer::Text => "TextCall",
        ApiAnswer::Bytes => "BytesCall",
        ApiAnswer::Events(_) => "EventsCall",
        ApiAnswer::WebSocket => "SocketCall",
    };
    let mut path = operation.path.clone();
    for field in &operation.in_path {
        path = path.replace(&format!("{{{}}}", field.name), &format!("{{segment({})}}", argument(&field.name)));
    }
    let prefix = if operation.in_path.is_empty() { "" } else { "f" };
    let mut parts = vec![format!("\"{}\"", operation.method), format!("{prefix}\"{path}\"")];
    match &operation.body {
        ApiBody::None => {}
        ApiBody::Json { .. } => parts.push("json=body".to_owned()),
        ApiBody::Bytes => parts.push("content=body".to_owned()),
        ApiBody::Form => parts.push("form=body".to_owned()),
    }
    if !operation.in_query.is_empty() {
        let pair = |field: &ApiField| format!("\"{}\": {}", field.name, argument(&field.name));
        let pairs: Vec<String> = operation.in_query.iter().map(pair).collect();
        let one = format!("query={{{}}}", pairs.join(", "));
        parts.push(if one.len() + 8 <= COLUMNS_MAX {
            one
        } else {
            format!("query={{\n            {},\n        }}", pairs.join(",\n            "))
        });
    }
    let line = format!("    return {class}({})", parts.join(", "));
    if line.len() <= COLUMNS_MAX && !line.contains('\n') {
        let _ = writeln!(out, "{line}");
    } else {
        let _ = writeln!(out, "    return {class}(\n        {},\n    )", parts.join(",\n        "));
    }
}

/// Writes a docstring: one line, or a summary with a paragraph.
fn write_docstring(out: &mut String, summary: &str, more: &str, indent: usize) {
    let pad = " ".repeat(indent);
    let summary = summary.trim().trim_end_matches('.');
    if summary.is_empty() {
        return;
    }
    let summary = format!("{summary}.").replace('\\', "\\\\");
    let one = format!("{pad}\"\"\"{summary}\"\"\"");
    if more.is_empty() && one.len() <= COLUMNS_MAX {
        let _ = writeln!(out, "{one}");
        return;
    }
    let mut lines = wrap(&summary, indent + 3);
    if !more.is_empty() {
        lines.push(String::new());
        lines.extend(wrap(&more.replace('\\', "\\\\"), indent));
    }
    let _ = writeln!(out, "{pad}\"\"\"{}", lines[0]);
    for line in &lines[1..] {
        let _ = if line.is_empty() { writeln!(out) } else { writeln!(out, "{pad}{line}") };
    }
    let _ = writeln!(out, "{pad}\"\"\"");
}

/// The type inside `models`.
fn spelled(kind: &ApiType) -> String {
    match kind {
        ApiType::Text => "str".to_owned(),
        ApiType::Choice(choices) => {
            let quoted: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
            format!("Literal[{}]", quoted.join(", "))
        }
        ApiType::Integer => "int".to_owned(),
        ApiType::Number => "float".to_owned(),
        ApiType::Flag => "bool".to_owned(),
        ApiType::Any => "Any".to_owned(),
        ApiType::Named(name) => name.clone(),
        ApiType::List(item) => format!("list[{}]", spelled(item)),
        ApiType::Map(value) => format!("dict[str, {}]", spelled(value)),
        ApiType::Nullable(inner) => format!("{} | None", spelled(inner)),
    }
}

/// The type outside `models`.
fn outer(kind: &ApiType) -> String {
    match kind {
        ApiType::Named(name) => format!("models.{name}"),
        ApiType::List(item) => format!("list[{}]", outer(item)),
        ApiType::Map(value) => format!("dict[str, {}]", outer(value)),
        ApiType::Nullable(inner) => format!("{} | None", outer(inner)),
        other => spelled(other),
    }
}

/// The name of an argument: one that the language uses for something else gets an underscore.
fn argument(name: &str) -> String {
    if TAKEN.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

//! The core of the TypeScript SDK: interfaces, and functions that describe a request.

use std::fmt::Write as _;

use super::{
    COLUMNS_MAX, MARK,
    document::{ApiAnswer, ApiBody, ApiDocument, ApiField, ApiOperation, ApiType},
    wrap,
};

/// Writes the types.
pub fn models(api: &ApiDocument) -> String {
    let mut out = format!("// {MARK}\n\n/** The objects of the API, as they are on the wire. */\n");
    for model in &api.models {
        out.push('\n');
        write_comment(&mut out, &model.description, "");
        let _ = writeln!(out, "export interface {} {{", model.name);
        for field in &model.fields {
            write_comment(&mut out, &field.description, "  ");
            let mark = if field.required { "" } else { "?" };
            let _ = writeln!(out, "  {}{mark}: {};", field.name, spelled(&field.kind));
        }
        out.push_str("}\n");
    }
    out
}

/// Writes the functions.
pub fn operations(api: &ApiDocument) -> String {
    let mut out = format!(
        "// {MARK}\n\n/** A function for each operation of the API. It describes the request; a transport sends it. \
         */\n\nimport type {{\n  BytesCall,\n  EmptyCall,\n  EventsCall,\n  JsonCall,\n  RequestBytes,\n  SocketCall,\n  \
         TextCall,\n}} from \"./call.js\";\nimport {{ segment }} from \"./call.js\";\nimport type * as models from \
         \"./models.js\";\n"
    );
    for operation in &api.operations {
        write_operation(&mut out, operation);
    }
    out
}

fn write_operation(out: &mut String, operation: &ApiOperation) {
    let mut arguments: Vec<String> =
        operation.in_path.iter().map(|field| format!("{}: {}", field.name, spelled(&field.kind))).collect();
    let body = match &operation.body {
        ApiBody::None => None,
        ApiBody::Json { kind, required: true } => Some(format!("body: {}", outer(kind))),
        ApiBody::Json { kind, required: false } => Some(format!("body?: {}", outer(kind))),
        ApiBody::Bytes => Some("body: RequestBytes".to_owned()),
        ApiBody::Form => Some("body: FormData".to_owned()),
    };
    arguments.extend(body);
    if !operation.in_query.is_empty() {
        let field = |field: &ApiField| {
            let mark = if field.required { "" } else { "?" };
            format!("{}{mark}: {}", field.name, outer(&field.kind))
        };
        let fields: Vec<String> = operation.in_query.iter().map(field).collect();
        let needed = operation.in_query.iter().any(|field| field.required);
        arguments.push(format!("query: {{ {} }}{}", fields.join("; "), if needed { "" } else { " = {}" }));
    }
    let (answer, kind) = match &operation.answer {
        ApiAnswer::None => ("EmptyCall".to_owned(), "empty"),
        ApiAnswer::Json(kind) => (format!("JsonCall<{}>", outer(kind)), "json"),
        ApiAnswer::Text => ("TextCall".to_owned(), "text"),
        ApiAnswer::Bytes => ("BytesCall".to_owned(), "bytes"),
        ApiAnswer::Events(_) => ("EventsCall".to_owned(), "events"),
        ApiAnswer::WebSocket => ("SocketCall".to_owned(), "socket"),
    };
    out.push('\n');
    write_comment(out, &[operation.summary.as_str(), "."].concat(), "");
    let line = format!("export function {}({}): {answer} {{", operation.name, arguments.join(", "));
    if line.len() <= COLUMNS_MAX {
        let _ = writeln!(out, "{line}");
    } else {
        let _ = writeln!(out, "export function {}(\n  {},\n): {answer} {{", operation.name, arguments.join(",\n  "));
    }
    let mut path = operation.path.clone();
    for field in &operation.in_path {
        path = path.replace(&format!("{{{}}}", field.name), &format!("${{segment({})}}", field.name));
    }
    let quote = if operation.in_path.is_empty() { '"' } else { '`' };
    let mut parts = vec![
        format!("kind: \"{kind}\""),
        format!("method: \"{}\"", operation.method),
        format!("path: {quote}{path}{quote}"),
    ];
    match &operation.body {
        ApiBody::None => {}
        ApiBody::Json { .. } => parts.push("json: body".to_owned()),
        ApiBody::Bytes => parts.push("bytes: body".to_owned()),
        ApiBody::Form => parts.push("form: body".to_owned()),
    }
    if !operation.in_query.is_empty() {
        parts.push("query".to_owned());
    }
    let line = format!("  return {{ {} }};", parts.join(", "));
    if line.len() <= COLUMNS_MAX {
        let _ = writeln!(out, "{line}\n}}");
    } else {
        let _ = writeln!(out, "  return {{\n    {},\n  }};\n}}", parts.join(",\n    "));
    }
}

fn write_comment(out: &mut String, text: &str, pad: &str) {
    let text = text.replace("*/", "* /");
    let lines = wrap(&text, pad.len() + 3);
    match &lines[..] {
        [] => {}
        [one] if pad.len() + one.len() + 7 <= COLUMNS_MAX => {
            let _ = writeln!(out, "{pad}/** {one} */");
        }
        more => {
            let _ = writeln!(out, "{pad}/**");
            for line in more {
                let _ = writeln!(out, "{pad} * {line}");
            }
            let _ = writeln!(out, "{pad} */");
        }
    }
}

/// The type inside `models`.
fn spelled(kind: &ApiType) -> String {
    match kind {
        ApiType::Text => "string".to_owned(),
        ApiType::Choice(choices) => {
            let quoted: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
            quoted.join(" | ")
        }
        ApiType::Integer | ApiType::Number => "number".to_owned(),
        ApiType::Flag => "boolean".to_owned(),
        ApiType::Any => "unknown".to_owned(),
        ApiType::Named(name) => name.clone(),
        ApiType::List(item) => match &**item {
            ApiType::Nullable(_) | ApiType::Choice(_) => format!("Array<{}>", spelled(item)),
            item => format!("{}[]", spelled(item)),
        },
        ApiType::Map(value) => format!("Record<string, {}>", spelled(value)),
        ApiType::Nullable(inner) => format!("{} | null", spelled(inner)),
    }
}

/// The type outside `models`.
fn outer(kind: &ApiType) -> String {
    match kind {
        ApiType::Named(name) => format!("models.{name}"),
        ApiType::List(item) => format!("{}[]", outer(item)),
        ApiType::Map(value) => format!("Record<string, {}>", outer(value)),
        ApiType::Nullable(inner) => format!("{} | null", outer(inner)),
        other => spelled(other),
    }
}

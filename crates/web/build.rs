//! Packs the built dashboard (`dashboard/dist`) into the program. Without a build of it the program
//! has a page that tells how to make one, so that `cargo build` alone works.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};

const DIST: &str = "../../dashboard/dist";
/// Bytes of a file's digest in its entity tag.
const TAG_BYTES: usize = 12;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let dist = Path::new(DIST);
    let mut found = Vec::new();
    if dist.join("index.html").is_file() {
        println!("cargo::rerun-if-changed={DIST}");
        walk(dist, &mut found)?;
    }
    found.sort();
    let mut table = String::from("static FILES: &[PackedFile] = &[\n");
    for (number, file) in found.iter().enumerate() {
        let path = file.strip_prefix(dist)?.to_str().ok_or("a file of the dashboard has a strange name")?;
        let Some(kind) = content_type(path) else { continue };
        let content = fs::read(file)?;
        let packed = out.join(format!("{number}.gz"));
        let mut encoder = GzEncoder::new(fs::File::create(&packed)?, Compression::best());
        encoder.write_all(&content)?;
        encoder.finish()?;
        let tag: String = Sha256::digest(&content).iter().take(TAG_BYTES).map(|byte| format!("{byte:02x}")).collect();
        writeln!(
            table,
            "    PackedFile {{ path: {path:?}, kind: {kind:?}, tag: {tag:?}, packed: include_bytes!({packed:?}) }},"
        )?;
    }
    table.push_str("];\n");
    fs::write(out.join("files.rs"), table)?;
    Ok(())
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { walk(&entry.path(), found)? } else { found.push(entry.path()) }
    }
    Ok(())
}

/// Returns the content type of a file. `None` for one that browsers do not need.
fn content_type(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "wasm" => "application/wasm",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => return None,
    })
}

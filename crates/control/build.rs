//! Packs the API's document: as text it would be the largest thing in the binary that hardly
//! anybody asks for.

use std::{env, error::Error, fs, io::Write, path::Path};

use flate2::{Compression, write::GzEncoder};

const DOCUMENT: &str = "../../docs/openapi.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={DOCUMENT}");
    let to = Path::new(&env::var("OUT_DIR")?).join("openapi.json.gz");
    let mut packed = GzEncoder::new(fs::File::create(to)?, Compression::best());
    packed.write_all(&fs::read(DOCUMENT)?)?;
    packed.finish()?;
    Ok(())
}

//! Parses the recipe of a template from `images/NAME/recipe.toml`. The built-in recipes are part of
//! the program.

use std::{collections::HashSet, fs, io, ops::RangeInclusive, path::Path};

use pandastack_model::{ByteSize, CodeLanguage, TemplateName};
use pandastack_wire_guest::CODE_WARM_BYTES_MAX;
use serde::Deserialize;

/// A checked recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    pub name: TemplateName,
    /// The name of the recipe that a variant belongs to. All variants share its root file system.
    pub family: TemplateName,
    pub aliases: Vec<TemplateName>,
    pub suite: String,
    pub packages: Vec<String>,
    pub memory: ByteSize,
    pub cpus: u8,
    pub disk: ByteSize,
    /// Commands that run once before sealing, so that the pages they touch are in the guest's
    /// memory.
    pub warm: Vec<String>,
    /// Kernels that run when the template is sealed.
    pub kernels: Vec<KernelSpec>,
    /// Scripts that run in the new root as its last build steps, those of a base recipe first.
    pub customize: Vec<String>,
    /// Files that those scripts find in `/tmp/files`.
    pub files: Vec<RecipeAsset>,
    /// Machines of other sizes, with the same root file system.
    pub variants: Vec<RecipeVariant>,
}

/// A machine of another size than its recipe's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeVariant {
    pub name: TemplateName,
    pub memory: ByteSize,
    pub cpus: u8,
}

/// A text file that a recipe brings along, from the folder `files` beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeAsset {
    pub name: String,
    pub text: String,
}

/// A kernel that every sandbox of the template starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSpec {
    pub language: CodeLanguage,
    /// Code that it has run.
    pub code: String,
    /// Code that a standby machine runs before its first user comes.
    pub rehearsal: Option<String>,
}

/// A recipe cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    #[error("recipe {name:?} not found; the built-in recipes are {known}")]
    Unknown { name: String, known: String },
    #[error("read {path}")]
    Read {
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error("the recipe is not valid")]
    Parse(#[from] toml::de::Error),
    #[error("{field}: {problem}")]
    Field { field: &'static str, problem: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeFile {
    name: String,
    #[serde(default, rename = "description")]
    _description: String,
    suite: String,
    packages: Vec<String>,
    memory_mib: u64,
    cpus: u8,
    disk_mib: u64,
    /// A built-in recipe whose packages and scripts come first.
    base: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    warm: Vec<String>,
    #[serde(default, rename = "kernel")]
    kernels: Vec<KernelTable>,
    #[serde(default, rename = "variant")]
    variants: Vec<VariantTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VariantTable {
    name: String,
    memory_mib: u64,
    cpus: u8,
}

impl VariantTable {
    fn checked(self) -> Result<RecipeVariant, RecipeError> {
        let (memory, cpus) = checked_size(self.memory_mib, self.cpus)?;
        Ok(RecipeVariant { name: template_name(self.name)?, memory, cpus })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelTable {
    language: String,
    #[serde(default)]
    warm: String,
    rehearsal: Option<String>,
}

impl KernelTable {
    fn checked(self) -> Result<KernelSpec, RecipeError> {
        let Self { language, warm, rehearsal } = self;
        let found = CodeLanguage::find(&language).filter(|found| *found != CodeLanguage::Bash).ok_or_else(|| {
            let problem = format!("{language:?} is not kept warm; use python or javascript");
            RecipeError::Field { field: "kernel", problem }
        })?;
        if warm.len().max(rehearsal.as_ref().map_or(0, String::len)) > CODE_WARM_BYTES_MAX {
            let problem = format!("the code of {language} is longer than {CODE_WARM_BYTES_MAX} bytes");
            return Err(RecipeError::Field { field: "kernel", problem });
        }
        Ok(KernelSpec { language: found, code: warm, rehearsal })
    }
}

/// An image in `images/`, as text in the program.
struct BuiltInImage {
    name: &'static str,
    recipe: &'static str,
    customize: &'static str,
    files: &'static [(&'static str, &'static str)],
}

/// Reads an image from `images/`: its name, and the names of the files that it brings along.
macro_rules! image {
    ($name:literal $(, $file:literal)*) => {
        BuiltInImage {
            name: $name,
            recipe: include_str!(concat!("../../../../images/", $name, "/recipe.toml")),
            customize: include_str!(concat!("../../../../images/", $name, "/customize.sh")),
            files: &[$(($file, include_str!(concat!("../../../../images/", $name, "/files/", $file)))),*],
        }
    };
}

/// The catalogue. A base comes before the recipes that build on it.
const BUILTIN: [BuiltInImage; 7] = [
    image!("mini"),
    image!("base"),
    image!("code-interpreter"),
    image!("agent"),
    image!("claude-agent"),
    image!("browser"),
    image!(
        "postgres-16",
        "archive-wal",
        "database",
        "pg_hba.conf",
        "pg_ident.conf",
        "pgbouncer.ini",
        "postgresql.conf",
        "restore-wal"
    ),
];

/// Returns the names of all built-in recipes.
pub fn builtin_names() -> Vec<&'static str> {
    BUILTIN.iter().map(|image| image.name).collect()
}

/// Returns a built-in recipe by its name, one of its aliases or the name of a variant.
pub fn builtin(name: &str) -> Result<Recipe, RecipeError> {
    let mut known = Vec::new();
    for image in BUILTIN {
        let mut recipe = Recipe::parse(image.recipe, Some(image.customize.to_owned()))?;
        known.extend(recipe.names());
        let files = image.files.iter();
        recipe.add_files(files.map(|(name, text)| RecipeAsset { name: (*name).into(), text: (*text).into() }));
        if let Some(found) = recipe.named(name) {
            return Ok(found);
        }
    }
    Err(RecipeError::Unknown { name: name.to_owned(), known: known.join(", ") })
}

fn template_name(text: String) -> Result<TemplateName, RecipeError> {
    text.parse::<TemplateName>().map_err(|error| RecipeError::Field { field: "name", problem: error.to_string() })
}

fn within(field: &'static str, value: u64, range: RangeInclusive<u64>) -> Result<u64, RecipeError> {
    let problem = format!("{value} is not between {} and {}", range.start(), range.end());
    if range.contains(&value) { Ok(value) } else { Err(RecipeError::Field { field, problem }) }
}

/// Checks the memory and the CPUs of a machine.
fn checked_size(memory_mib: u64, cpus: u8) -> Result<(ByteSize, u8), RecipeError> {
    within("cpus", cpus.into(), 1..=16)?;
    Ok((ByteSize::mib(within("memory_mib", memory_mib, 128..=65536)?), cpus))
}

/// Reads the files of a user's recipe. Without the folder there are none.
fn read_files(folder: &Path) -> Result<Vec<RecipeAsset>, RecipeError> {
    let at = |path: &Path| {
        let path = path.display().to_string();
        move |cause| RecipeError::Read { path, cause }
    };
    let entries = match fs::read_dir(folder) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at(folder))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(at(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push(RecipeAsset { name, text: fs::read_to_string(&path).map_err(at(&path))? });
    }
    Ok(files)
}

impl Recipe {
    /// Reads a recipe from a user's folder.
    pub fn read(folder: &Path) -> Result<Self, RecipeError> {
        let path = folder.join("recipe.toml");
        let text =
            fs::read_to_string(&path).map_err(|cause| RecipeError::Read { path: path.display().to_string(), cause })?;
        let mut recipe = Self::parse(&text, fs::read_to_string(folder.join("customize.sh")).ok())?;
        recipe.add_files(read_files(&folder.join("files"))?);
        Ok(recipe)
    }

    /// Returns the recipe of this name: itself, or a variant with the size of that.
    pub fn named(&self, name: &str) -> Option<Self> {
        if self.name.as_str() == name || self.aliases.iter().any(|alias| alias.as_str() == name) {
            return Some(self.clone());
        }
        let RecipeVariant { name, memory, cpus } =
            self.variants.iter().find(|variant| variant.name.as_str() == name)?.clone();
        Some(Self { name, memory, cpus, aliases: Vec::new(), ..self.clone() })
    }

    /// Returns its name and those of its variants.
    pub fn names(&self) -> Vec<String> {
        let variants = self.variants.iter().map(|variant| &variant.name);
        [&self.name].into_iter().chain(variants).map(ToString::to_string).collect()
    }

    /// Adds files. Those of a base with the same names give way.
    fn add_files(&mut self, files: impl IntoIterator<Item = RecipeAsset>) {
        for file in files {
            self.files.retain(|other| other.name != file.name);
            self.files.push(file);
        }
        self.files.sort_by(|one, other| one.name.cmp(&other.name));
    }

    /// Parses and checks a recipe.
    pub fn parse(text: &str, customize: Option<String>) -> Result<Self, RecipeError> {
        let file: RecipeFile = toml::from_str(text)?;
        let RecipeFile { name, suite, mut packages, memory_mib, cpus, disk_mib, base, aliases, .. } = file;
        let (mut scripts, mut files) = (Vec::new(), Vec::new());
        if let Some(base) = base {
            if base == name {
                return Err(RecipeError::Field {
                    field: "base",
                    problem: "a recipe cannot be its own base".to_owned(),
                });
            }
            let base = builtin(&base)?;
            packages.extend(base.packages);
            scripts.extend(base.customize);
            files = base.files;
        }
        packages.sort();
        packages.dedup();
        scripts.extend(customize);
        let word =
            |text: &String| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.:_".contains(c));
        if let Some(bad) = packages.iter().chain([&suite]).find(|text| !word(text)) {
            return Err(RecipeError::Field {
                field: "packages",
                problem: format!("{bad:?} is not a valid package name"),
            });
        }
        let name = template_name(name)?;
        let (memory, cpus) = checked_size(memory_mib, cpus)?;
        let recipe = Self {
            family: name.clone(),
            name,
            aliases: aliases.into_iter().map(template_name).collect::<Result<_, _>>()?,
            suite,
            packages,
            memory,
            cpus,
            disk: ByteSize::mib(within("disk_mib", disk_mib, 256..=1 << 20)?),
            warm: file.warm,
            kernels: file.kernels.into_iter().map(KernelTable::checked).collect::<Result<_, _>>()?,
            customize: scripts,
            files,
            variants: file.variants.into_iter().map(VariantTable::checked).collect::<Result<_, _>>()?,
        };
        let mut names = recipe.names();
        names.extend(recipe.aliases.iter().map(ToString::to_string));
        let all: HashSet<&String> = names.iter().collect();
        if all.len() < names.len() {
            let problem = "two variants or aliases have the same name".to_owned();
            return Err(RecipeError::Field { field: "variant", problem });
        }
        Ok(recipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_recipes_are_sound() {
        for name in builtin_names() {
            assert_eq!(builtin(name).unwrap().name.as_str(), name);
        }
        for (alias, name) in [("ubuntu-24.04", "base"), ("nextjs", "base"), ("python-data", "code-interpreter")] {
            assert_eq!(builtin(alias).unwrap().name.as_str(), name);
        }
        assert_eq!(builtin("claude-agent").unwrap().customize.len(), 4, "its own script after those of three bases");
        assert!(builtin("nonesuch").unwrap_err().to_string().contains("mini"));
    }

    #[test]
    fn files_come_along_from_the_recipe_and_its_base() {
        let names = |recipe: &Recipe| recipe.files.iter().map(|file| file.name.clone()).collect::<Vec<_>>();
        assert!(builtin("base").unwrap().files.is_empty());
        let postgres = builtin("postgres-16").unwrap();
        for name in ["archive-wal", "database", "restore-wal"] {
            assert!(names(&postgres).contains(&name.to_owned()), "{name}");
        }
        let in_repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images/postgres-16");
        assert_eq!(Recipe::read(&in_repository).unwrap(), postgres, "the program carries every file of the folder");

        let folder = tempfile::tempdir().unwrap();
        let text =
            "name='large'\nbase='postgres-16'\nsuite='trixie'\npackages=[]\nmemory_mib=4096\ncpus=2\ndisk_mib=1024\n";
        fs::write(folder.path().join("recipe.toml"), text).unwrap();
        assert_eq!(Recipe::read(folder.path()).unwrap().files, postgres.files);
        fs::create_dir(folder.path().join("files")).unwrap();
        fs::write(folder.path().join("files/database"), "mine").unwrap();
        let changed = Recipe::read(folder.path()).unwrap();
        assert_eq!(names(&changed), names(&postgres));
        assert!(changed.files.contains(&RecipeAsset { name: "database".to_owned(), text: "mine".to_owned() }));
    }

    #[test]
    fn a_variant_differs_in_its_machine_only() {
        let small = builtin("postgres-16").unwrap();
        for (name, gib, cpus) in [("postgres-16", 1, 1), ("postgres-16-4g", 4, 2), ("postgres-16-16g", 16, 4)] {
            let variant = builtin(name).unwrap();
            assert_eq!((variant.memory, variant.cpus), (ByteSize::gib(gib), cpus), "{name}");
            assert_eq!(variant.name.as_str(), name);
            let as_small = Recipe { name: small.name.clone(), memory: small.memory, cpus: small.cpus, ..variant };
            assert_eq!(as_small, small);
        }
        let error = builtin("postgres-16-2g").unwrap_err().to_string();
        assert!(error.contains("postgres-16-4g, postgres-16-16g"), "{error}");

        let text = "name='x'\nsuite='bookworm'\npackages=[]\nmemory_mib=256\ncpus=1\ndisk_mib=512\naliases=['z']\n";
        let variant = |name: &str, mib: u64| format!("{text}[[variant]]\nname='{name}'\nmemory_mib={mib}\ncpus=2\n");
        let recipe = Recipe::parse(&variant("x-1g", 1024), None).unwrap();
        assert_eq!(recipe.names(), ["x", "x-1g"]);
        assert!(recipe.named("x-1g").unwrap().aliases.is_empty(), "an alias is the recipe's own");
        assert_eq!((recipe.named("z").unwrap().name, recipe.named("y")), (recipe.name.clone(), None));
        for (name, mib, about) in
            [("x", 512, "same name"), ("z", 512, "same name"), ("y", 1, "memory_mib"), ("?", 512, "name")]
        {
            let error = Recipe::parse(&variant(name, mib), None).unwrap_err().to_string();
            assert!(error.contains(about), "{error}");
        }
    }

    #[test]
    fn wrong_fields_are_named() {
        let text = "name='x'\nsuite='bookworm'\npackages=['a; rm -rf /']\nmemory_mib=256\ncpus=1\ndisk_mib=512\n";
        assert!(Recipe::parse(text, None).unwrap_err().to_string().contains("package name"));
        let text = "name='x'\nsuite='bookworm'\npackages=[]\nmemory_mib=1\ncpus=1\ndisk_mib=512\n";
        assert!(Recipe::parse(text, None).unwrap_err().to_string().contains("memory_mib"));
        let text = "name='x'\nsuite='bookworm'\npackages=[]\nmemory_mib=256\ncpus=1\ndisk_mib=512\n";
        let kernel = |language: &str| format!("{text}[[kernel]]\nlanguage='{language}'\nwarm='import os'\n");
        let kept = KernelSpec { language: CodeLanguage::Python, code: "import os".to_owned(), rehearsal: None };
        assert_eq!(Recipe::parse(&kernel("python"), None).unwrap().kernels, [kept]);
        assert!(Recipe::parse(&kernel("bash"), None).unwrap_err().to_string().contains("not kept warm"));
    }
}

//! Template builds: the request, its checks, and how the API shows a build.

use pandastack_model::{Fault, FaultKind, TemplateName};
use serde::{Deserialize, Serialize};

use crate::{
    failure::bad,
    limits::{
        BUILD_CPUS_MAX, BUILD_MEMORY_MB_MAX, BUILD_MEMORY_MB_MIN, BUILD_SIZE_MB_DEFAULT, BUILD_SIZE_MB_MAX,
        DOCKERFILE_BYTES_MAX,
    },
};

/// Names below `/v1/templates/` that are routes and cannot be template names.
const RESERVED: [&str; 2] = ["build", "builds"];

/// One build of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Build {
    pub id: String,
    pub name: String,
    /// `queued`, `running`, `baking`, then `done` or `failed`.
    pub status: String,
    pub started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    pub size_mb: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Size of the upload in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<String>,
    /// Why the build failed, with the name of the failed step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The text fields of a request, not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildFields {
    pub name: Option<String>,
    pub size_mb: Option<String>,
    pub cpu: Option<String>,
    pub memory_mb: Option<String>,
    pub dockerfile: Option<String>,
    pub image_ref: Option<String>,
    pub from_snapshot: Option<String>,
    pub replace: Option<String>,
    pub registry_auth: Option<HiddenText>,
    pub start: Option<String>,
    /// Whether the request uploads a root file system.
    pub rootfs: bool,
}

/// A checked request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildSpec {
    pub name: TemplateName,
    pub size_mb: u64,
    pub cpu: Option<u32>,
    pub memory_mb: Option<u64>,
    pub source: BuildSource,
    /// Credentials for a registry.
    pub registry_auth: Option<RegistryAuth>,
    /// Whether to replace an existing template of that name.
    pub replace: bool,
    /// Whether to start the template's `ENTRYPOINT` and `CMD`.
    pub start: bool,
}

/// Text that is never shown, neither in logs nor in errors.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct HiddenText(pub String);

impl std::fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

/// User name and password for one registry. Used for one build and never stored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RegistryAuth {
    /// The registry that they belong to. Optional only with an `image_ref`, which names it.
    #[serde(default)]
    pub registry: Option<String>,
    pub username: String,
    pub password: HiddenText,
}

/// The source of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildSource {
    Dockerfile(String),
    Snapshot(String),
    Image(String),
    Rootfs,
}

impl BuildFields {
    /// Sets a field by its name. Returns false if there is no such field.
    pub fn set(&mut self, name: &str, value: String) -> bool {
        let field = match name {
            "name" => &mut self.name,
            "size_mb" => &mut self.size_mb,
            "cpu" => &mut self.cpu,
            "memory_mb" => &mut self.memory_mb,
            "dockerfile" => &mut self.dockerfile,
            "image_ref" => &mut self.image_ref,
            "from_snapshot" => &mut self.from_snapshot,
            "replace" => &mut self.replace,
            "start" => &mut self.start,
            "registry_auth" => {
                self.registry_auth = Some(HiddenText(value));
                return true;
            }
            // Accepted and ignored: there is only one kernel.
            "kernel" => return true,
            _ => return false,
        };
        *field = Some(value);
        true
    }
}

impl TryFrom<BuildFields> for BuildSpec {
    type Error = Fault;

    fn try_from(fields: BuildFields) -> Result<Self, Fault> {
        let BuildFields {
            name,
            size_mb,
            cpu,
            memory_mb,
            dockerfile,
            image_ref,
            from_snapshot,
            replace,
            registry_auth,
            start,
            rootfs,
        } = fields;
        let name = name.filter(|name| !name.is_empty()).ok_or_else(|| bad("build.no_name", "name required"))?;
        let name: TemplateName = name.parse().map_err(|error| bad("template.bad_name", format!("{error}")))?;
        if RESERVED.contains(&name.as_str()) {
            return Err(bad("template.bad_name", format!("the template name {name} is reserved")));
        }
        let size_mb = number("size_mb", size_mb, 1..=BUILD_SIZE_MB_MAX)?.unwrap_or(BUILD_SIZE_MB_DEFAULT);
        let cpu = number("cpu", cpu, 1..=BUILD_CPUS_MAX)?.and_then(|cpu| u32::try_from(cpu).ok());
        let memory_mb = number("memory_mb", memory_mb, BUILD_MEMORY_MB_MIN..=BUILD_MEMORY_MB_MAX)?;
        let filled = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        // One published client sends CRLF in every text field.
        let dockerfile = filled(dockerfile).map(|text| text.replace("\r\n", "\n"));
        if dockerfile.as_ref().is_some_and(|text| text.len() > DOCKERFILE_BYTES_MAX) {
            let text = format!("the Dockerfile is larger than {DOCKERFILE_BYTES_MAX} bytes");
            return Err(Fault::new(FaultKind::TooLarge, "build.too_large", text));
        }
        let sources = [
            dockerfile.map(BuildSource::Dockerfile),
            filled(image_ref).map(BuildSource::Image),
            filled(from_snapshot).map(BuildSource::Snapshot),
            rootfs.then_some(BuildSource::Rootfs),
        ];
        let mut sources = sources.into_iter().flatten();
        let (Some(source), None) = (sources.next(), sources.next()) else {
            let text = "send exactly one of dockerfile, rootfs, image_ref and from_snapshot";
            return Err(bad("build.one_source", text));
        };
        let registry_auth = registry_auth.map(|text| auth(&text, &source)).transpose()?;
        let replace = replace.as_deref().is_some_and(is_true);
        let start = match filled(start).as_deref() {
            None => true,
            Some("true" | "1") => true,
            Some("false" | "0") => false,
            Some(_) => return Err(bad("build.bad_start", "start must be true or false")),
        };
        Ok(Self { name, size_mb, cpu, memory_mb, source, registry_auth, replace, start })
    }
}

/// Reads user name and password. Error texts never contain them.
fn auth(text: &HiddenText, source: &BuildSource) -> Result<RegistryAuth, Fault> {
    let wrong = |text: &str| bad("build.bad_registry_auth", text);
    let read = serde_json::from_str::<RegistryAuth>(&text.0);
    let auth = read.map_err(|_| wrong("registry_auth must be JSON: {\"registry\"?, \"username\", \"password\"}"))?;
    if auth.username.contains(':') || auth.username.chars().chain(auth.password.0.chars()).any(char::is_control) {
        return Err(wrong(
            "the username in registry_auth must not contain a colon, and neither value may contain control characters",
        ));
    }
    // A Dockerfile may use several registries, and the password is for one of them.
    if auth.registry.is_none() && !matches!(source, BuildSource::Image(_)) {
        return Err(wrong("registry_auth must name its registry, unless image_ref is given"));
    }
    Ok(auth)
}

/// Reads `true`, `1` and `yes`, as the published clients send them.
pub(crate) fn is_true(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes")
}

fn number(field: &str, text: Option<String>, allowed: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, Fault> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let number = text.trim().parse::<u64>().ok().filter(|number| allowed.contains(number));
    number.map(Some).ok_or_else(|| {
        let text = format!("{field} must be a number from {} to {}", allowed.start(), allowed.end());
        bad("build.bad_number", text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> BuildFields {
        let mut fields = BuildFields::default();
        for (name, value) in pairs {
            match *name {
                "rootfs" => fields.rootfs = true,
                name => assert!(fields.set(name, (*value).to_owned()), "{name}"),
            }
        }
        fields
    }

    fn refused(pairs: &[(&str, &str)], code: &str) {
        assert_eq!(BuildSpec::try_from(fields(pairs)).unwrap_err().code, code, "{pairs:?}");
    }

    #[test]
    fn a_request_is_checked_whole() {
        let ask = BuildSpec::try_from(fields(&[
            ("name", "mine"),
            ("size_mb", "2048"),
            ("memory_mb", ""),
            ("dockerfile", "FROM a\r\nRUN b\r\n"),
            ("replace", "true"),
        ]));
        let ask = ask.unwrap();
        assert_eq!((ask.size_mb, ask.cpu, ask.memory_mb, ask.replace, ask.start), (2048, None, None, true, true));
        assert_eq!(ask.source, BuildSource::Dockerfile("FROM a\nRUN b\n".to_owned()));
        let ask = BuildSpec::try_from(fields(&[("name", "mine"), ("image_ref", "a"), ("start", "false")])).unwrap();
        assert!(!ask.start && !ask.replace);
    }

    #[test]
    fn wrong_requests_are_named() {
        refused(&[("dockerfile", "FROM a")], "build.no_name");
        refused(&[("name", "a/b"), ("dockerfile", "FROM a")], "template.bad_name");
        refused(&[("name", "builds"), ("dockerfile", "FROM a")], "template.bad_name");
        refused(&[("name", "a")], "build.one_source");
        refused(&[("name", "a"), ("dockerfile", "x"), ("start", "later")], "build.bad_start");
        refused(&[("name", "a"), ("dockerfile", "x"), ("image_ref", "y")], "build.one_source");
        refused(&[("name", "a"), ("from_snapshot", "x"), ("rootfs", "")], "build.one_source");
        refused(&[("name", "a"), ("dockerfile", "x"), ("size_mb", "16385")], "build.bad_number");
        refused(&[("name", "a"), ("dockerfile", "x"), ("cpu", "0")], "build.bad_number");
        refused(&[("name", "a"), ("dockerfile", "x"), ("memory_mb", "1e3")], "build.bad_number");
        let long = "x".repeat(DOCKERFILE_BYTES_MAX + 1);
        refused(&[("name", "a"), ("dockerfile", &long)], "build.too_large");
    }

    #[test]
    fn a_password_is_for_one_registry_and_never_shown() {
        let good = r#"{"username": "ann", "password": "hush"}"#;
        let mut given = fields(&[("name", "a"), ("image_ref", "r.example/a"), ("registry_auth", good)]);
        assert!(!format!("{given:?}").contains("hush"));
        let ask = BuildSpec::try_from(given.clone()).unwrap();
        assert!(!format!("{ask:?}").contains("hush"));
        assert_eq!(ask.registry_auth.unwrap().password.0, "hush");
        given = fields(&[("name", "a"), ("dockerfile", "FROM r.example/a"), ("registry_auth", good)]);
        assert_eq!(BuildSpec::try_from(given).unwrap_err().code, "build.bad_registry_auth");
        let whole = r#"{"registry": "r.example", "username": "ann", "password": "hush"}"#;
        assert!(
            BuildSpec::try_from(fields(&[("name", "a"), ("dockerfile", "FROM a"), ("registry_auth", whole)])).is_ok()
        );
        for wrong in
            ["hush", "{}", r#"{"username": "a:b", "password": "hush"}"#, r#"{"username": "a", "password": "hush\n"}"#]
        {
            let refused = BuildSpec::try_from(fields(&[("name", "a"), ("image_ref", "a"), ("registry_auth", wrong)]));
            let fault = refused.unwrap_err();
            assert!(fault.code == "build.bad_registry_auth" && !fault.text.contains("hush"), "{wrong}");
        }
    }
}

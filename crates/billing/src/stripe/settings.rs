//! The settings of Stripe, read once from the environment. Secrets never appear in a message or in
//! `Debug`.

use std::fmt;

use pandastack_kit::Secret;

use super::BillingInterval;
use crate::{
    limits::{METER_EVENT_NAME_BYTES_MAX, STRIPE_ID_BYTES_MAX},
    plans::PlanName,
};

/// Whether real money moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeMode {
    Test,
    Live,
}

/// Ids of the prices that were set up in Stripe. A price that is not set cannot be bought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StripePrices {
    pub pro_monthly: Option<String>,
    pub pro_annual: Option<String>,
    pub team_monthly: Option<String>,
    pub team_annual: Option<String>,
    /// The metered price. Its unit is one micro-dollar of usage above the credit.
    pub overage: Option<String>,
}

impl StripePrices {
    /// Returns the price of a plan. Free needs none, and custom plans are set up by hand.
    pub fn of(&self, plan: PlanName, interval: BillingInterval) -> Option<&str> {
        let price = match (plan, interval) {
            (PlanName::Pro, BillingInterval::Month) => &self.pro_monthly,
            (PlanName::Pro, BillingInterval::Year) => &self.pro_annual,
            (PlanName::Team, BillingInterval::Month) => &self.team_monthly,
            (PlanName::Team, BillingInterval::Year) => &self.team_annual,
            (PlanName::Free | PlanName::Custom, _) => &None,
        };
        price.as_deref()
    }

    /// Returns the plan that a price belongs to.
    pub fn plan_of(&self, price: &str) -> Option<PlanName> {
        let is = |own: &Option<String>| own.as_deref() == Some(price);
        if is(&self.pro_monthly) || is(&self.pro_annual) {
            return Some(PlanName::Pro);
        }
        (is(&self.team_monthly) || is(&self.team_annual)).then_some(PlanName::Team)
    }
}

/// Checked settings. They exist only if billing is on.
#[derive(Clone)]
pub struct StripeSettings {
    pub secret_key: Secret<String>,
    pub mode: StripeMode,
    pub meter_event_name: String,
    pub prices: StripePrices,
    pub portal_config: Option<String>,
    /// Secret of the webhook's signatures. Without it no webhook is accepted.
    pub webhook_secret: Option<Secret<String>>,
    /// A public value for browsers.
    pub publishable_key: Option<String>,
}

/// Why the settings cannot be used. Names the variable and never its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StripeSettingsError {
    #[error("{name} cannot be used: it must {rule}")]
    Bad { name: &'static str, rule: &'static str },
    #[error("STRIPE_SECRET_KEY and STRIPE_API_KEY differ; set only one of them")]
    TwoKeys,
    #[error("STRIPE_METER_EVENT_NAME is not set; create a meter in Stripe and set the name of its events")]
    NoMeter,
    #[error("STRIPE_PUBLISHABLE_KEY and the secret key belong to different modes; take both from the same mode")]
    MixedModes,
}

impl StripeSettings {
    /// Reads the settings through a look-up of environment variables. Returns `None` if there is no
    /// secret key: billing is off, and the server starts without it. An empty variable counts as
    /// unset.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, StripeSettingsError> {
        let set = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let (name, key) = match (set("STRIPE_SECRET_KEY"), set("STRIPE_API_KEY")) {
            (Some(key), Some(alias)) if key != alias => return Err(StripeSettingsError::TwoKeys),
            (Some(key), _) => ("STRIPE_SECRET_KEY", key),
            (None, Some(key)) => ("STRIPE_API_KEY", key),
            (None, None) => return Ok(None),
        };
        let id = |name: &'static str, prefix: &str, rule: &'static str| match set(name) {
            Some(value) if value.starts_with(prefix) && is_token(&value) => Ok(Some(value)),
            Some(_) => Err(StripeSettingsError::Bad { name, rule }),
            None => Ok(None),
        };
        let price = |name| id(name, "price_", "be the id of a price, which begins with price_");
        let mode = mode_of(name, &key)?;
        let publishable_key = id("STRIPE_PUBLISHABLE_KEY", "pk_", "begin with pk_test_ or pk_live_")?;
        let test = publishable_key.as_deref().map(|key| key.starts_with("pk_test_"));
        if test.is_some_and(|test| test != (mode == StripeMode::Test)) {
            return Err(StripeSettingsError::MixedModes);
        }
        let meter_event_name = set("STRIPE_METER_EVENT_NAME").ok_or(StripeSettingsError::NoMeter)?;
        if meter_event_name.len() > METER_EVENT_NAME_BYTES_MAX || !is_token(&meter_event_name) {
            let rule = "have at most 100 letters, digits, '.', '_' or '-'";
            return Err(StripeSettingsError::Bad { name: "STRIPE_METER_EVENT_NAME", rule });
        }
        let prices = StripePrices {
            pro_monthly: price("STRIPE_PRICE_PRO_MONTHLY")?,
            pro_annual: price("STRIPE_PRICE_PRO_ANNUAL")?,
            team_monthly: price("STRIPE_PRICE_TEAM_MONTHLY")?,
            team_annual: price("STRIPE_PRICE_TEAM_ANNUAL")?,
            overage: price("STRIPE_PRICE_OVERAGE")?,
        };
        let webhook_secret = id("STRIPE_WEBHOOK_SECRET", "whsec_", "begin with whsec_")?.map(Secret::new);
        let portal_config = id("STRIPE_PORTAL_CONFIG", "bpc_", "be the id of a configuration, which begins with bpc_")?;
        let secret_key = Secret::new(key);
        Ok(Some(Self { secret_key, mode, meter_event_name, prices, portal_config, webhook_secret, publishable_key }))
    }
}

/// Shows which settings are there, and no secret.
impl fmt::Debug for StripeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StripeSettings")
            .field("mode", &self.mode)
            .field("meter_event_name", &self.meter_event_name)
            .field("prices", &self.prices)
            .field("portal_config", &self.portal_config)
            .field("webhook_secret", &self.webhook_secret.as_ref().map(|_| "…"))
            .field("publishable_key", &self.publishable_key)
            .finish_non_exhaustive()
    }
}

/// Reads the mode from a secret or restricted key.
fn mode_of(name: &'static str, key: &str) -> Result<StripeMode, StripeSettingsError> {
    let begins = |prefixes: [&str; 2]| prefixes.iter().any(|prefix| key.starts_with(prefix));
    let rule = "be a secret or restricted key, which begins with sk_test_, sk_live_, rk_test_ or rk_live_";
    if !is_token(key) {
        return Err(StripeSettingsError::Bad { name, rule });
    }
    if begins(["sk_test_", "rk_test_"]) {
        return Ok(StripeMode::Test);
    }
    if begins(["sk_live_", "rk_live_"]) { Ok(StripeMode::Live) } else { Err(StripeSettingsError::Bad { name, rule }) }
}

/// Tells whether a text is an id that fits into a header and a form as it is.
pub(crate) fn is_token(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=STRIPE_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: [(&str, &str); 9] = [
        ("STRIPE_SECRET_KEY", "sk_test_abc123"),
        ("STRIPE_METER_EVENT_NAME", "pandastack_usage"),
        ("STRIPE_PRICE_PRO_MONTHLY", "price_pm"),
        ("STRIPE_PRICE_PRO_ANNUAL", "price_pa"),
        ("STRIPE_PRICE_TEAM_MONTHLY", "price_tm"),
        ("STRIPE_PRICE_OVERAGE", "price_over"),
        ("STRIPE_PORTAL_CONFIG", "bpc_1"),
        ("STRIPE_WEBHOOK_SECRET", "whsec_hidden"),
        ("STRIPE_PUBLISHABLE_KEY", "pk_test_1"),
    ];

    /// Reads the full settings with some variables replaced.
    fn read(changes: &[(&str, &str)]) -> Result<Option<StripeSettings>, StripeSettingsError> {
        let find =
            |all: &[(&str, &str)], name: &str| all.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_owned());
        StripeSettings::read(|name| find(changes, name).or_else(|| find(&FULL, name)))
    }

    #[test]
    fn without_a_key_billing_is_off() {
        assert!(StripeSettings::read(|_| None).unwrap().is_none());
        assert!(read(&[("STRIPE_SECRET_KEY", " ")]).unwrap().is_none());
        let other_key =
            read(&[("STRIPE_SECRET_KEY", ""), ("STRIPE_API_KEY", "rk_live_1"), ("STRIPE_PUBLISHABLE_KEY", "")]);
        assert_eq!(other_key.unwrap().unwrap().mode, StripeMode::Live);
    }

    #[test]
    fn settings_are_read_and_secrets_never_shown() {
        let settings = read(&[]).unwrap().unwrap();
        assert_eq!((settings.mode, settings.meter_event_name.as_str()), (StripeMode::Test, "pandastack_usage"));
        assert_eq!(settings.prices.of(PlanName::Pro, BillingInterval::Year), Some("price_pa"));
        assert_eq!(settings.prices.of(PlanName::Team, BillingInterval::Year), None);
        assert_eq!(settings.prices.of(PlanName::Free, BillingInterval::Month), None);
        assert_eq!(settings.prices.plan_of("price_tm"), Some(PlanName::Team));
        assert_eq!(settings.prices.plan_of("price_over"), None);
        let shown = format!("{settings:?}");
        assert!(!shown.contains("abc123") && !shown.contains("hidden") && shown.contains("Test"), "{shown}");
    }

    #[test]
    fn a_wrong_setting_is_named_without_its_value() {
        for (name, value) in [
            ("STRIPE_SECRET_KEY", "pk_test_oops"),
            ("STRIPE_SECRET_KEY", "sk_test_a\nb"),
            ("STRIPE_PRICE_TEAM_ANNUAL", "prod_oops"),
            ("STRIPE_WEBHOOK_SECRET", "oops"),
            ("STRIPE_PORTAL_CONFIG", "oops"),
            ("STRIPE_METER_EVENT_NAME", "oops oops"),
            ("STRIPE_PUBLISHABLE_KEY", "sk_test_oops"),
        ] {
            let error = read(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("must") && !error.contains("oops"), "{error}");
        }
        assert_eq!(read(&[("STRIPE_API_KEY", "sk_test_other")]).unwrap_err(), StripeSettingsError::TwoKeys);
        assert_eq!(read(&[("STRIPE_METER_EVENT_NAME", "")]).unwrap_err(), StripeSettingsError::NoMeter);
        assert_eq!(read(&[("STRIPE_PUBLISHABLE_KEY", "pk_live_1")]).unwrap_err(), StripeSettingsError::MixedModes);
    }
}

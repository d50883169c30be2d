//! Money as integers. A pico-dollar is a millionth of a millionth of a dollar, so that the price of
//! one second has no rounding. A sum is rounded once, at its end, half to even. No floats.

use std::{fmt, str::FromStr};

/// Pico-dollars in a dollar and in a micro-dollar.
pub const PICO_PER_DOLLAR: i128 = 1_000_000_000_000;
pub const PICO_PER_MICRO: i128 = 1_000_000;

/// Digits after the point of an amount.
const DECIMALS: usize = 12;
/// Longest text of an amount.
const AMOUNT_BYTES_MAX: usize = 40;

/// An amount of dollars. Never negative: subtraction stops at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PicoDollars(i128);

/// Text that is no amount of dollars.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an amount; write dollars such as \"5.40\", with at most {DECIMALS} digits after the point")]
pub struct BadAmount(String);

impl PicoDollars {
    pub const ZERO: Self = Self(0);

    /// Makes an amount. A negative number becomes zero.
    pub const fn from_pico(pico: i128) -> Self {
        Self(if pico < 0 { 0 } else { pico })
    }

    /// Makes an amount of whole micro-dollars.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros as i128 * PICO_PER_MICRO)
    }

    /// Returns the exact number of pico-dollars.
    pub const fn pico(self) -> i128 {
        self.0
    }

    /// Rounds to micro-dollars, half to even.
    pub fn to_micros(self) -> u64 {
        let micros = half_even(self.0.unsigned_abs(), PICO_PER_MICRO.unsigned_abs());
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    /// Adds.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Subtracts. The result is never below zero.
    pub const fn minus(self, other: Self) -> Self {
        Self::from_pico(self.0.saturating_sub(other.0))
    }

    /// Returns the percentage of a whole, rounded down. `None` if the whole is zero.
    pub fn percent_of(self, whole: Self) -> Option<u64> {
        let hundredfold = self.0.saturating_mul(100);
        (whole.0 > 0).then(|| u64::try_from(hundredfold / whole.0).unwrap_or(u64::MAX))
    }
}

/// Dollars with two digits after the point, or as many as the amount needs.
impl fmt::Display for PicoDollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:012}", self.0 % PICO_PER_DOLLAR);
        let shown = decimals.trim_end_matches('0').len().max(2);
        write!(f, "{}.{}", self.0 / PICO_PER_DOLLAR, &decimals[..shown])
    }
}

impl FromStr for PicoDollars {
    type Err = BadAmount;

    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let bad = || BadAmount(text.chars().take(AMOUNT_BYTES_MAX).collect());
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if text.len() > AMOUNT_BYTES_MAX || decimals.len() > DECIMALS || !digits(whole) || !digits(decimals) {
            return Err(bad());
        }
        let whole: i128 = whole.parse().map_err(|_| bad())?;
        let part: i128 = format!("{decimals:0<DECIMALS$}").parse().map_err(|_| bad())?;
        whole.checked_mul(PICO_PER_DOLLAR).and_then(|whole| whole.checked_add(part)).map(Self).ok_or_else(bad)
    }
}

/// Divides and rounds half to even.
pub(crate) fn half_even(amount: u128, divisor: u128) -> u128 {
    scale(amount, 1, divisor)
}

/// Returns `amount * factor / divisor`, rounded half to even. Divides first, so that only
/// `divisor * factor` has to fit into 128 bits; what does not fit becomes the largest number.
pub(crate) fn scale(amount: u128, factor: u128, divisor: u128) -> u128 {
    let (whole, rest) = (amount / divisor, amount % divisor);
    let rest = rest.saturating_mul(factor);
    let rounded_down = whole.saturating_mul(factor).saturating_add(rest / divisor);
    let rest = rest % divisor;
    let up = match rest.cmp(&(divisor - rest)) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => rounded_down % 2,
        std::cmp::Ordering::Greater => 1,
    };
    rounded_down.saturating_add(up)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_read_and_shown_without_loss() {
        for (text, pico, shown) in [
            ("0", 0, "0.00"),
            ("5.40", 5_400_000_000_000, "5.40"),
            ("0.15", 150_000_000_000, "0.15"),
            ("0.0000025", 2_500_000, "0.0000025"),
            ("0.000000000001", 1, "0.000000000001"),
            ("20", 20_000_000_000_000, "20.00"),
        ] {
            let amount: PicoDollars = text.parse().unwrap();
            assert_eq!((amount.pico(), amount.to_string().as_str()), (pico, shown), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let long = "9".repeat(41);
        for bad in ["", ".", "5.", ".5", "-1", "+1", "1e3", "1,0", "0.0000000000001", " 1", "NaN", "１", &long] {
            assert!(bad.parse::<PicoDollars>().is_err(), "{bad:?}");
        }
        assert!("9".repeat(39).parse::<PicoDollars>().is_err(), "too large for the type");
    }

    #[test]
    fn halves_round_to_the_even_neighbour() {
        for (pico, micros) in [(499_999, 0), (500_000, 0), (500_001, 1), (1_500_000, 2), (2_500_000, 2), (3_500_000, 4)]
        {
            assert_eq!(PicoDollars::from_pico(pico).to_micros(), micros, "{pico}");
        }
    }

    #[test]
    fn nothing_is_negative() {
        let (one, two) = (PicoDollars::from_micros(1), PicoDollars::from_micros(2));
        assert_eq!((one.minus(two), two.minus(one)), (PicoDollars::ZERO, one));
        assert_eq!(PicoDollars::from_pico(-5), PicoDollars::ZERO);
        assert_eq!((two.percent_of(one), one.percent_of(PicoDollars::ZERO)), (Some(200), None));
    }

    proptest! {
        #[test]
        fn an_amount_survives_printing(pico in 0_i128..1_000_000_000_000_000_000_000) {
            let amount = PicoDollars::from_pico(pico);
            prop_assert_eq!(amount.to_string().parse::<PicoDollars>().unwrap(), amount);
        }

        #[test]
        fn scaling_equals_plain_arithmetic_where_that_fits(
            amount in 0_u128..1 << 60,
            factor in 0_u128..1 << 40,
            divisor in 1_u128..1 << 60,
        ) {
            let (exact, rest) = (amount * factor / divisor, amount * factor % divisor);
            let up = rest * 2 > divisor || (rest * 2 == divisor && exact % 2 == 1);
            prop_assert_eq!(scale(amount, factor, divisor), exact + u128::from(up));
        }
    }
}

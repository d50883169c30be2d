//! Amounts, shares and times of use as text.

/// Cells of a bar.
const BAR_CELLS: usize = 20;
const HOUR_SECONDS: f64 = 3600.0;

/// Writes dollars. Amounts below one dollar have up to four digits after the point.
pub fn usd(amount: f64) -> String {
    if amount == 0.0 || amount >= 1.0 {
        return format!("${amount:.2}");
    }
    if amount > 0.0 && amount < 0.000_05 {
        return "<$0.0001".to_owned();
    }
    let digits = format!("{amount:.4}");
    let short = digits.trim_end_matches('0');
    let cents = digits.find('.').map_or(digits.len(), |point| point + 3);
    format!("${}", &digits[..short.len().max(cents)])
}

/// Turns seconds of a CPU or a GiB into hours.
pub fn hours(seconds: f64) -> String {
    match seconds / HOUR_SECONDS {
        0.0 => "0".to_owned(),
        hours if hours < 0.005 => "<0.01".to_owned(),
        hours if hours < 1000.0 => format!("{hours:.2}"),
        hours => format!("{hours:.0}"),
    }
}

/// Draws a part of a whole. Only a whole that is reached has no empty cell.
pub fn bar(part: f64, whole: f64) -> String {
    let share = share(part, whole);
    let cells = (share * BAR_CELLS as f64).round() as usize;
    let most = if share < 1.0 { BAR_CELLS - 1 } else { BAR_CELLS };
    let cells = cells.max(usize::from(share > 0.0)).min(most);
    format!("{}{}", "█".repeat(cells), "░".repeat(BAR_CELLS - cells))
}

/// Writes how much of an amount is used, with a bar.
pub fn used_of(used: f64, whole: f64) -> String {
    // The small number hides that 0.29 * 100 is below 29.
    let percent = (share(used, whole) * 100.0 + 1e-9).floor();
    format!("{} {percent}%, {} of {}", bar(used, whole), usd(used), usd(whole))
}

/// A whole of nothing is used up by the first part.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).max(0.0) } else { f64::from(u8::from(part > 0.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_amounts_have_more_digits() {
        for (amount, text) in [
            (0.0, "$0.00"),
            (0.000_001, "<$0.0001"),
            (0.000_25, "$0.0003"),
            (0.036, "$0.036"),
            (0.15, "$0.15"),
            (0.999_99, "$1.00"),
            (5.4, "$5.40"),
            (1234.567, "$1234.57"),
        ] {
            assert_eq!(usd(amount), text, "{amount}");
        }
    }

    #[test]
    fn seconds_become_hours() {
        for (seconds, text) in [(0.0, "0"), (1.0, "<0.01"), (1800.0, "0.50"), (360_000.0, "100.00"), (3.6e8, "100000")]
        {
            assert_eq!(hours(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn a_bar_is_full_only_at_the_end() {
        let check = |part, whole, cells: usize| {
            let bar = bar(part, whole);
            assert_eq!((bar.chars().filter(|cell| *cell == '█').count(), bar.chars().count()), (cells, BAR_CELLS));
        };
        check(0.0, 10.0, 0);
        check(0.001, 10.0, 1);
        check(5.0, 10.0, 10);
        check(9.999, 10.0, 19);
        check(10.0, 10.0, 20);
        check(1e300, 10.0, 20);
        check(0.0, 0.0, 0);
        check(0.1, 0.0, 20);
        check(-1.0, 10.0, 0);
        check(f64::NAN, f64::NAN, 0);
        assert!(used_of(0.29, 1.0).ends_with(" 29%, $0.29 of $1.00"), "{}", used_of(0.29, 1.0));
        assert!(used_of(3.0, 2.0).ends_with(" 150%, $3.00 of $2.00"));
    }
}

//! Publishes the figures: the table in the README, and a plot of every figure against its target.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};

use crate::{
    figures::{FIGURES, Figure, Goal},
    table::FigureTable,
};

const BEGIN: &str = "<!-- bench: begin -->\n";
const END: &str = "<!-- bench: end -->\n";

/// Position of the target in the plot, and how far a bar may extend past it.
const TARGET_X: f64 = 560.0;
const LEFT_X: f64 = 360.0;
const SHARE_MAX: f64 = 2.0;
const ROW: usize = 24;

/// Writes the README's table and `docs/bench.svg` below a folder.
pub fn publish(table: &FigureTable, root: &Path) -> Result<()> {
    let readme = root.join("README.md");
    let text = fs::read_to_string(&readme).context("read README.md")?;
    fs::write(&readme, with_table(&text, table)?).context("write README.md")?;
    fs::write(root.join("docs/bench.svg"), plot(table)).context("write docs/bench.svg")?;
    Ok(())
}

fn measured(table: &FigureTable) -> impl Iterator<Item = (&'static Figure, f64)> {
    FIGURES.iter().filter_map(|figure| Some((figure, table.value(figure.key)?)))
}

fn with_table(text: &str, table: &FigureTable) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).context("README.md has no `<!-- bench: begin -->`")?;
    let (_, after) = rest.split_once(END).context("README.md has no `<!-- bench: end -->`")?;
    let mut rows = String::from("| figure | value | target |\n|---|---|---|\n");
    for (figure, value) in measured(table) {
        let Figure { label, unit, goal, .. } = figure;
        let sign = if matches!(goal, Goal::AtMost(_)) { "≤" } else { "≥" };
        let missed = if goal.is_met(value) { "" } else { " (missed)" };
        let row = format!("| {label} | {} {unit}{missed} | {sign} {} {unit} |", short(value), short(goal.target()));
        writeln!(rows, "{}", row.replace("  ", " "))?;
    }
    Ok(format!("{before}{BEGIN}{rows}{END}{after}"))
}

/// A number with its significant digits.
fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

fn plot(table: &FigureTable) -> String {
    let rows: Vec<_> = measured(table).collect();
    let height = 64 + rows.len() * ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"860\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"24\" font-size=\"15\" font-weight=\"bold\">Figures against their targets</text>\n\
         <text x=\"{TARGET_X}\" y=\"24\" text-anchor=\"middle\" fill=\"#555555\">target</text>\n"
    );
    for (at, (figure, value)) in rows.iter().enumerate() {
        let Figure { label, unit, goal, .. } = figure;
        let (y, share) = (40 + at * ROW, goal.share(*value).min(SHARE_MAX));
        let width = share * (TARGET_X - LEFT_X);
        let colour = if goal.is_met(*value) { "#3a8f5c" } else { "#c8553d" };
        let label = label.replace('`', "");
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{}\" text-anchor=\"end\">{label}</text>\
             <rect x=\"{LEFT_X}\" y=\"{y}\" width=\"{width:.1}\" height=\"16\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{}\" fill=\"#333333\">{} {unit}</text>",
            LEFT_X - 8.0,
            y + 13,
            LEFT_X + width + 6.0,
            y + 13,
            short(*value),
        );
    }
    let _ = writeln!(
        svg,
        "<line x1=\"{TARGET_X}\" y1=\"32\" x2=\"{TARGET_X}\" y2=\"{}\" stroke=\"#222222\" \
         stroke-dasharray=\"4 3\"/>\n</svg>",
        height - 16
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> FigureTable {
        let mut table = FigureTable::default();
        table.report("fork_ms_p50", 300.0);
        table.report("api_get_rps", 16_000.0);
        table.report("something_without_a_target", 1.0);
        table
    }

    #[test]
    fn only_the_table_of_the_readme_changes() {
        let text = format!("before\n{BEGIN}old\n{END}after\n");
        let expected = format!(
            "before\n{BEGIN}| figure | value | target |\n|---|---|---|\n\
             | fork with 24 MB changed | 300 ms (missed) | ≤ 150 ms |\n\
             | GET of one sandbox | 16000 requests/s | ≥ 8000 requests/s |\n{END}after\n"
        );
        assert_eq!(with_table(&text, &table()).unwrap(), expected);
        with_table("no marks", &table()).unwrap_err();
    }

    #[test]
    fn the_plot_has_a_bar_for_each_figure_and_says_which_missed() {
        let svg = plot(&table());
        assert_eq!(svg.matches("height=\"16\"").count(), 2);
        assert_eq!(svg.matches("#c8553d").count(), 1, "a missed target has its own colour");
    }
}

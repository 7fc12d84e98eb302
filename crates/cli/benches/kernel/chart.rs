//! A chart of one line with points, as SVG.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;

/// The points, in the order in which they are joined.
pub struct Series(pub Vec<(f64, f64)>);

pub struct Chart {
    pub title: &'static str,
    pub x: &'static str,
    pub y: &'static str,
    /// Whether equal steps to the right are equal factors.
    pub logarithmic: bool,
    pub series: Series,
}

impl Chart {
    pub fn svg(&self) -> String {
        let Series(points) = &self.series;
        let far = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(0.0, f64::max);
        let near = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(f64::MAX, f64::min);
        let (from, to, x_ticks) = if self.logarithmic {
            let from = near(|p| p.0).max(0.1).log10().floor();
            let to = far(|p| p.0).max(1.0).log10().ceil();
            let ticks = (from as i32..=to as i32).map(|power| 10f64.powi(power));
            (from, to, ticks.collect::<Vec<_>>())
        } else {
            let (to, ticks) = ticks(far(|p| p.0));
            (0.0, to, ticks)
        };
        let (high, y_ticks) = ticks(far(|p| p.1));
        let across = |x: f64| {
            let x = if self.logarithmic {
                x.max(0.1).log10()
            } else {
                x
            };
            LEFT + (x - from) / (to - from).max(1e-9) * (WIDTH - LEFT - RIGHT)
        };
        let up = |y: f64| HEIGHT - BOTTOM - y / high * (HEIGHT - TOP - BOTTOM);

        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{}\" y=\"24\" text-anchor=\"middle\" font-size=\"14\">{}</text>\n",
            WIDTH / 2.0,
            self.title
        );
        for tick in x_ticks {
            let at = across(tick);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {TOP}V{:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 18.0
            );
        }
        for tick in y_ticks {
            let at = up(tick);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.0
            );
        }
        let line: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{:.1},{:.1}", across(*x), up(*y)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#b3202a\" stroke-width=\"2\"/>",
            line.join(" ")
        );
        for (x, y) in points {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"#b3202a\"/>",
                across(*x),
                up(*y)
            );
        }
        let middle = TOP + (HEIGHT - TOP - BOTTOM) / 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n\
             </svg>",
            LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
            HEIGHT - 14.0,
            self.x,
            self.y
        );
        svg
    }
}

/// The end of an axis that holds `most`, and round numbers along it.
fn ticks(most: f64) -> (f64, Vec<f64>) {
    let most = most.max(1.0);
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let count = (most / step).ceil();
    let ticks = (0..=count as u32)
        .map(|number| (f64::from(number) * step * 1e6).round() / 1e6)
        .collect();
    (count * step, ticks)
}

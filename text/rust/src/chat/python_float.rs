// SPDX-License-Identifier: Apache-2.0
//! `repr(float)` of Python, in `tojson` and in text.

/// The shortest digits that read back as `value`; an exponent below 1e-4 and from 1e16 on.
pub(super) fn repr(value: f64, nan: &str, infinity: &str) -> String {
    if value.is_nan() {
        return nan.to_string();
    }
    if value.is_infinite() {
        return format!("{}{infinity}", if value < 0.0 { "-" } else { "" });
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) || value == 0.0 {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::repr;

    #[test]
    fn as_python() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123456.789, "123456.789"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(repr(value, "nan", "inf"), expected);
        }
    }
}

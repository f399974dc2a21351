//! Sizes for people.

/// Returns a size of at most seven columns: `812B`, `1.4KiB`, `56MiB`. What does not fit is cut
/// off, never rounded up.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut unit = 0;
    let mut scaled = bytes;
    while scaled >= 1024 * 1024 {
        scaled /= 1024;
        unit += 1;
    }
    let (whole, tenth) = (scaled / 1024, scaled % 1024 * 10 / 1024);
    if whole < 10 && tenth > 0 {
        format!("{whole}.{tenth}{}", UNITS[unit])
    } else {
        format!("{whole}{}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 1023, 1024, 1500, 10_240, 1 << 20, 67_108_863, 3 << 30, u64::MAX];
        let shown = sizes.map(size);
        let expected = ["0B", "1023B", "1KiB", "1.4KiB", "10KiB", "1MiB", "63MiB", "3GiB", "15EiB"];
        assert_eq!(shown, expected);
        assert!(size(1_048_575).len() <= 7);
    }
}

//! The older text format of Prometheus, for tools that do not read OpenMetrics. It differs in the names of counters, which
//! end in `_total` in their headings too, and has no end mark.

/// The OpenMetrics text as the older format, version 0.0.4.
pub(super) fn classic(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len() + 1024);
    let mut help = None;
    for line in openmetrics.lines() {
        if let Some(heading) = line.strip_prefix("# HELP ") {
            // How its metric is named depends on the type, which comes next.
            help = heading.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, help)) = help.take() {
                text.extend(["# HELP ", name, suffix, " ", help, "\n"]);
            }
            text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_as_their_samples_and_the_rest_stays() {
        let openmetrics = "# HELP a Some.\n# TYPE a counter\na_total{t=\"# x\"} 1\n\
            # HELP b_seconds Other help.\n# TYPE b_seconds gauge\n# UNIT b_seconds seconds\nb_seconds 2\n# EOF\n";
        let expected = "# HELP a_total Some.\n# TYPE a_total counter\na_total{t=\"# x\"} 1\n\
            # HELP b_seconds Other help.\n# TYPE b_seconds gauge\nb_seconds 2\n";
        assert_eq!(classic(openmetrics), expected);
    }
}

//! The guide as the server shows it.

use std::collections::BTreeSet;

use crate::harness::*;

/// The values of an attribute in a page.
fn attributes(html: &str, name: &str) -> Vec<String> {
    let opening = format!(" {name}=\"");
    let values = html.split(&opening).skip(1).filter_map(|rest| rest.split('"').next());
    values.map(str::to_owned).collect()
}

async fn page(client: &Client, path: &str) -> String {
    let answer = client.get_path(path).await.expect(200);
    assert!(answer.header("content-type").starts_with("text/html"), "{answer}");
    let policy = answer.header("content-security-policy");
    assert!(policy.contains("script-src 'self'; "), "{answer}");
    assert!(policy.contains("default-src 'none'") && !policy.contains("http"), "{answer}");
    assert!(policy.contains("form-action 'self'"), "the search is a form: {answer}");
    let html = String::from_utf8(answer.body.to_vec()).unwrap();
    assert_eq!(html.matches("<script").count(), 1, "{html}");
    assert!(html.contains("/guide/copy.js\" defer></script>"), "{html}");
    html
}

#[tokio::test]
async fn every_page_opens_without_a_key_and_its_links_lead_somewhere() {
    let launch = Dueq::on(&shared().await.redis).args(["--api-key", "the-key-of-the-guide"]);
    let dueq = launch.start().await;
    let client = dueq.client();
    let (mut open, mut seen) = (vec!["/guide".to_owned()], BTreeSet::new());
    let mut anchors = Vec::new();
    while let Some(path) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let html = page(&client, &path).await;
        assert!(html.contains("<title>"));
        let ids = attributes(&html, "id");
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{path}: {ids:?}");
        let (text, contents) = html.split_once("<aside").unwrap_or((&html, ""));
        let headings = text.matches("<h2 id=").count() + text.matches("<h3 id=").count();
        assert_eq!(contents.matches("<li").count(), headings, "{path}: what is on the page");
        assert_eq!(html.contains("<nav"), path != "/guide", "{path}: the index is the list itself");
        for link in attributes(&html, "href") {
            let (route, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let route = if route.is_empty() { &path } else { route };
            if route.starts_with("http") || route.ends_with(".css") {
                continue;
            }
            assert!(route.starts_with("/guide"), "{path} links to {link}");
            open.push(route.to_owned());
            if !anchor.is_empty() {
                anchors.push((route.to_owned(), anchor.to_owned()));
            }
        }
    }
    assert!(seen.len() > 40, "{seen:?}");
    for (route, anchor) in anchors {
        let html = page(&client, &route).await;
        assert!(attributes(&html, "id").contains(&anchor), "{route} has no {anchor}");
    }
    let style = client.get_path("/guide/style.css").await.expect(200);
    assert_eq!(style.header("content-type"), "text/css; charset=utf-8");
    let script = client.get_path("/guide/copy.js").await.expect(200);
    assert_eq!(script.header("content-type"), "text/javascript; charset=utf-8");
    client.get_path("/topics").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn a_search_leads_to_the_places_that_have_the_words() {
    let client = client().await;
    let front = page(&client, "/guide").await;
    assert!(front.contains("<form action=\"/guide/search\""), "{front}");
    for (query, first) in [
        ("dead+letters", "/guide/dead-letters#dead-letters"),
        ("REDIS_UNAVAIL", "/guide/errors#redis_unavailable"),
        ("other=1&q=helm%20chart", "/guide/install#kubernetes"),
    ] {
        let query = if query.contains('=') { query.to_owned() } else { format!("q={query}") };
        let html = page(&client, &format!("/guide/search?{query}")).await;
        let found = html.split("<h1>Search: ").nth(1).unwrap();
        let links = attributes(found, "href");
        assert_eq!(links.first().map(String::as_str), Some(first), "{query}: {links:?}");
        for link in links {
            let (route, anchor) = link.split_once('#').unwrap();
            let html = page(&client, route).await;
            assert!(attributes(&html, "id").contains(&anchor.to_owned()), "{query}: {link}");
        }
    }
    let html = page(&client, "/guide/search?q=%3Cscript%3E%22%26zzzz").await;
    assert!(html.contains("<h1>Search: &lt;script&gt;"), "{html}");
    for query in ["?q=%3Cscript%3E%22%26zzzz", "?q=", "?q=%ff%00", "?", ""] {
        let html = page(&client, &format!("/guide/search{query}")).await;
        assert!(html.contains("Nothing in the guide"), "{html}");
    }
    let long = "delay+".repeat(1000);
    page(&client, &format!("/guide/search?q={long}")).await;
    client.post("/guide/search", &serde_json::json!({})).await.problem(405, "method_not_allowed");
}

/// Behind a proxy, to see that links have the base path.
#[tokio::test]
async fn problems_lead_to_the_page_of_their_code_and_programs_find_the_markdown() {
    let launch = Dueq::on(&shared().await.redis).args(["--api-key", "the-key-of-the-guide"]);
    let dueq = launch.args(["--public-url", "https://q.example/dueq"]).start().await;
    let client = dueq.client();
    let problem = client.get_path("/topics").await.problem(401, "unauthorized");
    assert_eq!(problem.header("link"), "</dueq/guide/errors/unauthorized>; rel=help");
    let head = client.send("HEAD", "/topics", &[], None).await;
    assert_eq!(head.header("link"), problem.header("link"));
    let errors = client.get_path("/guide/errors.md").await.expect(200);
    let errors = String::from_utf8(errors.body).unwrap();
    let codes: Vec<&str> = errors.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert!(codes.len() > 50, "{codes:?}");
    for code in codes {
        let html = page(&client, &format!("/guide/errors/{code}")).await;
        assert!(html.contains(&format!("<h1 id=\"{code}\">{code}</h1>")), "{html}");
        for link in attributes(&html, "href") {
            let path = link.strip_prefix("/dueq").unwrap_or_else(|| panic!("{code}: {link}"));
            let (route, anchor) = path.split_once('#').unwrap_or((path, ""));
            if !anchor.is_empty() {
                let html = page(&client, route).await;
                assert!(attributes(&html, "id").contains(&anchor.to_owned()), "{code}: {link}");
            }
        }
    }
    client.get_path("/guide/errors/no_such_code").await.problem(404, "route_not_found");

    let list = client.get_path("/llms.txt").await.expect(200);
    assert_eq!(list.header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(client.get_path("/guide/llms.txt").await.expect(200).body, list.body);
    let list = String::from_utf8(list.body).unwrap();
    assert!(list.starts_with("# dueq\n\n> "), "{list}");
    let links = list.split("](https://q.example/dueq").skip(1);
    let links: Vec<&str> = links.filter_map(|rest| rest.split(')').next()).collect();
    assert_eq!(links.len(), list.matches("](").count(), "{list}");
    for link in links.iter().filter(|link| link.ends_with(".md")) {
        let page = client.get_path(link).await.expect(200);
        assert_eq!(page.header("content-type"), "text/markdown; charset=utf-8", "{link}");
        assert!(page.body.starts_with(b"# "), "{link}");
    }
    assert!(links.len() > 40, "{links:?}");
}

#[tokio::test]
async fn an_unknown_page_is_a_problem_like_any_other() {
    let client = client().await;
    client.get_path("/guide/no-such-page").await.problem(404, "route_not_found");
    client.get_path("/guide/tutorial/more").await.problem(404, "route_not_found");
    client.post("/guide/tutorial", &serde_json::json!({})).await.problem(405, "method_not_allowed");
}

#[tokio::test]
async fn the_root_says_where_to_begin_and_sends_browsers_to_the_guide() {
    let client = client().await;
    let answer = client.get_path("/").await.expect(200);
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    let text = String::from_utf8(answer.body).unwrap();
    for path in ["/docs", "/guide", "/openapi.json"] {
        assert!(text.lines().any(|line| line.ends_with(&format!(" {path}"))), "{path}: {text}");
    }
    let command = text.lines().find_map(|line| line.strip_prefix("curl ")).unwrap();
    let (url, body) = command.trim_end_matches('\'').split_once(" --json '").unwrap();
    let path = url.strip_prefix(&client.addr()).unwrap_or_else(|| panic!("not this server: {url}"));
    client.post_text(path, body).await.expect(201);
    for accept in ["*/*", "text/plain", "application/json", ""] {
        client.send("GET", "/", &[("accept", accept)], None).await.expect(200);
    }
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let answer = client.send("GET", "/", &[("accept", browser)], None).await.expect(303);
    assert_eq!(answer.header("location"), "/guide");
    client.send("POST", "/", &[], None).await.refused(405);
}

#[tokio::test]
async fn the_root_prints_no_host_that_a_shell_would_not_take_literally() {
    let launch = Dueq::on(&shared().await.redis).args(["--api-key", "the-key-of-the-guide"]);
    let dueq = launch.start().await;
    for (host, shown) in [
        ("dueq.example:8080", "dueq.example:8080"),
        ("[::1]:8080", "[::1]:8080"),
        ("evil\";id;\"", "localhost:8080"),
        ("$(id)", "localhost:8080"),
        ("a`id`", "localhost:8080"),
        ("a:b:c", "localhost:8080"),
    ] {
        let answer = dueq.client().send("GET", "/", &[("host", host)], None).await.expect(200);
        let text = String::from_utf8(answer.body).unwrap();
        assert!(text.contains(&format!("curl {shown}/topics/")), "{host}: {text}");
    }
}

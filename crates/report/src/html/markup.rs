//! HTML under construction. Markup is `&'static str`, so it is written in this crate;
//! everything else is text, which is escaped in one place.

use crate::escape::clean;

/// A page or a part of one.
#[derive(Default)]
pub(super) struct Markup(String);

impl Markup {
    /// Adds markup.
    pub(super) fn tag(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds text, in an element or in a quoted attribute. Characters that reorder or hide
    /// text are spelled out, as on a terminal.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for character in clean(text, true).chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// Adds a name, which may be broken between its words.
    pub(super) fn name(&mut self, name: &str) -> &mut Self {
        let mut words = name.split_inclusive([':', '_', '.']).peekable();
        while let Some(word) = words.next() {
            self.text(word);
            // Not between two colons.
            if words.peek().is_some_and(|next| !next.starts_with(':')) {
                self.tag("<wbr>");
            }
        }
        self
    }

    /// Adds an element with text in it.
    pub(super) fn element(
        &mut self,
        open: &'static str,
        text: &str,
        close: &'static str,
    ) -> &mut Self {
        self.tag(open).text(text).tag(close)
    }

    /// Adds a term of a description list and what it means.
    pub(super) fn fact(&mut self, term: &'static str, text: &str) -> &mut Self {
        self.element("<dt>", term, "</dt>")
            .element("<dd>", text, "</dd>\n")
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_be_broken_between_its_words() {
        let mut page = Markup::default();
        page.name("net::read_<T>");
        assert_eq!(page.into_text(), "net::<wbr>read_<wbr>&lt;T&gt;");
    }

    #[test]
    fn text_stays_text() {
        let mut page = Markup::default();
        page.tag("<a title=\"")
            .text("\" onclick='x'")
            .tag("\">")
            .text("</a><script>&\u{202e}")
            .tag("</a>");
        assert_eq!(
            page.into_text(),
            "<a title=\"&quot; onclick=&#39;x&#39;\">&lt;/a&gt;&lt;script&gt;&amp;\\u{202e}</a>"
        );
    }
}

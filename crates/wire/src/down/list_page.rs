//! A page of a list that a service has prepared: items already in the dialect of the client, so that answering costs one
//! copy, however long the page is.

use bytes::Bytes;

use super::{Caller, dialect};
use crate::{
    json::Raw,
    message::{
        Id, compose,
        result::CacheHint,
        splice::{self, Edit},
    },
    revision::Revision,
};

/// How list items are written for a client. Prepared items can be reused for all clients with an equal value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListDialect(Revision);

/// One page of a list, with items adapted by [`ListDialect::adapt`] for the client that gets it.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// Member of the result that holds the items, such as `tools`.
    pub member: &'static str,
    /// JSON array of adapted items.
    pub items: Raw,
    /// Cursor of the next page; `None` on the last.
    pub next_cursor: Option<String>,
    /// How long the page may be cached.
    pub hint: CacheHint,
}

impl Caller {
    /// How list items are written for this client.
    pub fn list_dialect(&self) -> ListDialect {
        ListDialect(self.revision)
    }
}

impl ListDialect {
    /// An item of this list as the client can read it; the same bytes where nothing has to change.
    pub fn adapt(self, member: &str, item: &Raw) -> Raw {
        dialect::list_item(self.0, member, item).unwrap_or_else(|| item.clone())
    }

    /// Index of the dialect, for keys that outlive a process.
    pub fn index(self) -> usize {
        Revision::ALL.iter().position(|revision| *revision == self.0).unwrap_or_default()
    }
}

impl ListPage {
    /// The page as the result of a list request.
    pub fn into_result(self) -> Raw {
        splice::edited(&Raw::empty_object(), &[self.common_members(), self.hint_members()].concat())
    }

    /// Response to a client with a session.
    pub(super) fn stateful_response(&self, id: &Id) -> Bytes {
        compose::result(id, &Raw::empty_object(), &self.common_members())
    }

    /// Response to a client without a session; `edits` only add members.
    pub(super) fn stateless_response(&self, id: &Id, edits: Vec<Edit<'static>>) -> Bytes {
        let edits = [self.common_members(), self.hint_members(), edits].concat();
        compose::result(id, &Raw::empty_object(), &edits)
    }

    fn common_members(&self) -> Vec<Edit<'static>> {
        let next = self.next_cursor.as_ref().map(|next| Edit::Add("nextCursor", Raw::of(next)));
        [Edit::Add(self.member, self.items.clone())].into_iter().chain(next).collect()
    }

    fn hint_members(&self) -> Vec<Edit<'static>> {
        self.hint.members().into_iter().map(|(name, value)| Edit::Add(name, value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ListDialect, ListPage};
    use crate::{
        json::Raw,
        message::{
            Id,
            result::{CacheHint, CacheScope},
            splice::Edit,
        },
        revision::Revision,
    };

    #[test]
    fn prepared_page_has_the_members_of_its_era() {
        let tool = Raw::of(&serde_json::json!({ "name": "t", "title": "T", "execution": {}, "inputSchema": {} }));
        let dialect = ListDialect(Revision::V2025_03_26);
        assert_eq!(dialect.adapt("tools", &tool).to_string(), r#"{"inputSchema":{},"name":"t"}"#);
        let page = ListPage {
            member: "tools",
            items: Raw::parse("[1]").unwrap(),
            next_cursor: Some("c".to_owned()),
            hint: CacheHint { ttl: Duration::from_millis(5), scope: CacheScope::Private },
        };
        let stateful = page.stateful_response(&Id::string("a"));
        assert_eq!(stateful, r#"{"jsonrpc":"2.0","id":"a","result":{"tools":[1],"nextCursor":"c"}}"#);
        let stateless = page.stateless_response(&Id::string("a"), vec![Edit::Add("resultType", Raw::of("complete"))]);
        let members = r#""tools":[1],"nextCursor":"c","ttlMs":5,"cacheScope":"private","resultType":"complete""#;
        assert_eq!(stateless, format!(r#"{{"jsonrpc":"2.0","id":"a","result":{{{members}}}}}"#));
        assert_eq!(page.into_result().get("ttlMs").unwrap().to_string(), "5");
    }
}

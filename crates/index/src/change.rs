//! Changes to a hash index: insert, put, remove.

use terrace_pool::{PageRef, Pages};

use crate::chain::{Bucket, Walk};
use crate::edit::Edit;
use crate::error::{IndexError, Result, in_page};
use crate::hash::Hash;
use crate::hash_index::HashIndex;
use crate::page::{Fit, View, record_bytes};

/// Result of a writer's walk along a chain.
#[derive(Clone, Copy, Debug, Default)]
struct Survey {
    /// The page of the key, at which the walk ended.
    found: Option<PageRef>,
    /// The page before that one in the chain, if any.
    before: Option<PageRef>,
    /// The first page with room for the record.
    room: Option<PageRef>,
    /// The last page of the chain and the number of slots of its table.
    last: Option<(PageRef, usize)>,
}

impl<P: Pages> HashIndex<P> {
    /// Inserts a new key. Returns false, and changes nothing, if the key exists.
    ///
    /// # Errors
    /// [`IndexError::TooLarge`]; [`IndexError::Pool`] if a page cannot be read or allocated, after
    /// which the index is unchanged; [`IndexError::Corrupt`].
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_size(key, value)?;
        let (hash, bucket) = self.bucket_of(key);
        let mut records = bucket.lock();
        let survey = self.survey(bucket, hash, key, record_bytes(key, value))?;
        if survey.found.is_some() {
            return Ok(false);
        }
        self.add(bucket, &survey, key, value)?;
        *records += 1;
        Ok(true)
    }

    /// Inserts a key or replaces its value. Returns true if the key is new.
    ///
    /// A concurrent reader of an existing key gets the old value or the new one, never none.
    ///
    /// # Errors
    /// As [`HashIndex::insert`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_size(key, value)?;
        let (hash, bucket) = self.bucket_of(key);
        let mut records = bucket.lock();
        let survey = self.survey(bucket, hash, key, record_bytes(key, value))?;
        if let Some(page) = survey.found {
            self.replace(page, hash, key, value)?;
            return Ok(false);
        }
        self.add(bucket, &survey, key, value)?;
        *records += 1;
        Ok(true)
    }

    /// Removes a key and its value. Returns false if the key did not exist.
    ///
    /// # Errors
    /// As [`HashIndex::get`].
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let (hash, bucket) = self.bucket_of(key);
        let mut records = bucket.lock();
        let survey = self.survey(bucket, hash, key, usize::MAX)?;
        let Some(page) = survey.found else { return Ok(false) };
        let empty = self.edit(page, |edit| Ok(edit.remove(hash, key)? && edit.is_empty()))?;
        *records = records.saturating_sub(1);
        match survey.before.filter(|_| empty).map(|before| self.unlink(before, page)) {
            // If the pool fails, the page stays in the chain, empty, and is reused.
            None | Some(Ok(()) | Err(IndexError::Pool(_))) => Ok(true),
            Some(Err(error)) => Err(error),
        }
    }

    fn bucket_of(&self, key: &[u8]) -> (Hash, &Bucket) {
        let hash = self.hasher.of(key);
        (hash, &self.buckets[hash.bucket(self.buckets.len())])
    }

    fn check_size(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let limit_bytes = self.pair_limit();
        if key.len().saturating_add(value.len()) <= limit_bytes {
            return Ok(());
        }
        Err(IndexError::TooLarge {
            key_bytes: key.len(),
            value_bytes: value.len(),
            limit_bytes,
            key_limit_bytes: limit_bytes,
        })
    }

    /// Finds a key, and a page with room for a record of `need` bytes in case the key is missing.
    fn survey(&self, bucket: &Bucket, hash: Hash, key: &[u8], need: usize) -> Result<Survey> {
        match Walk::start(&self.pages, bucket)? {
            Some(walk) => look(walk, Some((hash, key)), need),
            None => Ok(Survey::default()),
        }
    }

    /// Changes a page under its exclusive latch.
    fn edit<T>(
        &self,
        mut page: PageRef,
        change: impl FnOnce(&mut Edit<'_>) -> Result<T, &'static str>,
    ) -> Result<T> {
        let mut held = self.pages.write(&mut page)?;
        let mut edit = in_page(page.id(), Edit::of(&mut held))?;
        in_page(page.id(), change(&mut edit))
    }

    /// Adds a record to the page that a survey found, or to a new page at the end of the chain.
    fn add(&self, bucket: &Bucket, survey: &Survey, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(room) = survey.room {
            return self.append(room, key, value);
        }
        let page = self.page_of(survey.last.map(|last| last.1), key, value)?;
        match survey.last {
            Some((last, _)) => self.link(page, |index| {
                index.edit(last, |edit| {
                    edit.set_next(Some(page));
                    Ok(())
                })
            }),
            None => {
                bucket.set_head(page);
                Ok(())
            }
        }
    }

    fn append(&self, page: PageRef, key: &[u8], value: &[u8]) -> Result<()> {
        self.edit(page, |edit| match edit.append(self.hasher, key, value)? {
            true => Ok(()),
            false => Err("it had room for a record and has none"),
        })
    }

    /// Allocates a page with one record, which is in no chain yet.
    fn page_of(&self, slots: Option<usize>, key: &[u8], value: &[u8]) -> Result<PageRef> {
        let (page, mut held) = self.pages.allocate(self.page_bytes)?;
        let mut edit = Edit::create(&mut held, slots, record_bytes(key, value));
        let added = edit.append(self.hasher, key, value);
        drop(held);
        match in_page(page.id(), added) {
            Ok(true) => Ok(page),
            Ok(false) => {
                self.pages.free(page)?;
                Err(IndexError::Corrupt { page: page.id(), what: "a new page has no room" })
            }
            Err(error) => {
                self.pages.free(page)?;
                Err(error)
            }
        }
    }

    /// Links a new page into a chain, or frees it on failure.
    fn link(&self, page: PageRef, link: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let linked = link(self);
        if linked.is_err() {
            self.pages.free(page)?;
        }
        linked
    }

    /// Replaces the value of a key of `page`, there or in a later page of the chain.
    ///
    /// A value that moves has both its pages latched exclusively until the move is done: a reader
    /// before `page` waits and finds the new value, a reader behind it has passed the old one.
    fn replace(&self, mut page: PageRef, hash: Hash, key: &[u8], value: &[u8]) -> Result<()> {
        let need = record_bytes(key, value);
        let id = page.id();
        let mut held = self.pages.write(&mut page)?;
        let mut edit = in_page(id, Edit::of(&mut held))?;
        if in_page(id, edit.replace(self.hasher, key, value))? {
            return Ok(());
        }
        let header = in_page(id, edit.view())?.header;
        let behind = match header.next {
            Some(next) => look(Walk::at(&self.pages, next)?, None, need)?,
            None => Survey::default(),
        };
        match (behind.room, behind.last) {
            (Some(room), _) => self.append(room, key, value)?,
            (None, Some((last, slots))) => {
                let new = self.page_of(Some(slots), key, value)?;
                self.link(new, |index| {
                    index.edit(last, |edit| {
                        edit.set_next(Some(new));
                        Ok(())
                    })
                })?;
            }
            (None, None) => {
                edit.set_next(Some(self.page_of(Some(header.slots), key, value)?));
            }
        }
        in_page(id, edit.remove(hash, key)).map(drop)
    }

    /// Unlinks an empty page from its chain and frees it.
    ///
    /// Readers hold the latch of a page until they have that of the next (latch coupling), so under
    /// both exclusive latches no reader is in `page` or about to enter it.
    fn unlink(&self, mut before: PageRef, mut page: PageRef) -> Result<()> {
        let mut holder = self.pages.write(&mut before)?;
        let mut edit = in_page(before.id(), Edit::of(&mut holder))?;
        let held = self.pages.write(&mut page)?;
        edit.set_next(in_page(page.id(), View::of(&held))?.header.next);
        drop(held);
        self.pages.free(page)?;
        Ok(())
    }
}

/// Walks along a chain to the key in `wanted`, or to the end of the chain. Notes the first page
/// with room for a record of `need` bytes, unless `need` is `usize::MAX`.
fn look<P: Pages>(
    mut walk: Walk<'_, P>,
    wanted: Option<(Hash, &[u8])>,
    need: usize,
) -> Result<Survey> {
    let mut survey = Survey::default();
    loop {
        let view = walk.view()?;
        if let Some((hash, key)) = wanted
            && in_page(walk.page.id(), view.find(hash, key))?.is_some()
        {
            survey.found = Some(walk.page);
            survey.before = survey.last.map(|last| last.0);
            return Ok(survey);
        }
        if survey.room.is_none() && need != usize::MAX && view.fit(need) != Fit::Not {
            survey.room = Some(walk.page);
        }
        survey.last = Some((walk.page, view.header.slots));
        let next = view.header.next;
        if !walk.advance(next)? {
            return Ok(survey);
        }
    }
}

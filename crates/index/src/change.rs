//! Changing a hash index: insert, put, remove.

use terrace_pool::{PageRef, Pages};

use crate::chain::{Bucket, Walk};
use crate::edit::Edit;
use crate::error::{IndexError, Result, in_page};
use crate::hash::Hash;
use crate::hash_index::HashIndex;
use crate::page::{Fit, View, record_bytes};

/// What a writer learned on its way along a chain.
#[derive(Clone, Copy, Debug, Default)]
struct Survey {
    /// The page that has the key, if one has: the walk ended there.
    found: Option<PageRef>,
    /// The page before it.
    before: Option<PageRef>,
    /// The first page that has room for the record.
    room: Option<PageRef>,
    /// The chain's last page and the slots of its table.
    last: Option<(PageRef, usize)>,
}

impl<P: Pages> HashIndex<P> {
    /// Adds a key that is not there yet. False, and nothing changed, when it is.
    ///
    /// # Errors
    /// [`IndexError::TooLarge`]; [`IndexError::Pool`] when a page cannot be had: then the index is
    /// as before; [`IndexError::Corrupt`].
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

    /// Gives a key a value, whether it had one or not. True when it had.
    ///
    /// A reader sees the old value or the new one, never neither.
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
            return Ok(true);
        }
        self.add(bucket, &survey, key, value)?;
        *records += 1;
        Ok(false)
    }

    /// Removes a key and its value. False when it was not there.
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
            // A page that could not be had stays in the chain, empty, for the next record.
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

    /// Looks for a key, and for room for a record of `need` bytes in case it is not there.
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

    /// Adds a record where a survey found room, or in a new page at the chain's end.
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

    /// A new page with one record, in no chain yet.
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

    /// Puts a new page into a chain, or frees it when that fails.
    fn link(&self, page: PageRef, link: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let linked = link(self);
        if linked.is_err() {
            self.pages.free(page)?;
        }
        linked
    }

    /// Gives a key of `page` another value, there or in a page behind it.
    ///
    /// A value that moves is held exclusively at both places until it is at one: whoever is before
    /// `page` waits and finds the new one, whoever is behind it has seen the old one.
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

    /// Takes an empty page out of its chain and frees it.
    ///
    /// Readers hold a page until they hold the next, so with both latches nobody is on the way to
    /// `page` or in it.
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

/// Goes along a chain to the key, or to its end.
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

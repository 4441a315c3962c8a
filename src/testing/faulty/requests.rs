//! Each operation as a request that can be sent late, or twice.

use async_trait::async_trait;

use super::FaultyStore;
use crate::lock::{Container, LeaseId, LockPath, TimerPath};
use crate::store::{
    Acquire, Acquired, BreakNote, ETag, LeaseBroken, LeaseStore, List, Listing, PlanListing,
    PlanRead, PlanWritten, Renewed, StoreError, StoreTime, StoredLock, TimerRead, TimerWritten,
    Write, Written,
};

#[async_trait]
impl<S: LeaseStore + 'static> LeaseStore for FaultyStore<S> {
    async fn acquire(&self, path: &LockPath, request: Acquire) -> Result<Acquired, StoreError> {
        let path = path.clone();
        self.send("acquire a lease", move |store| {
            let (path, request) = (path.clone(), request.clone());
            Box::pin(async move { store.acquire(&path, request).await })
        })
        .await
    }

    async fn renew(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<Renewed, StoreError> {
        let path = path.clone();
        self.send("renew a lease", move |store| {
            let (path, if_match) = (path.clone(), if_match.clone());
            Box::pin(async move { store.renew(&path, lease_id, if_match).await })
        })
        .await
    }

    async fn release(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<(), StoreError> {
        let path = path.clone();
        self.send("release a lease", move |store| {
            let (path, if_match) = (path.clone(), if_match.clone());
            Box::pin(async move { store.release(&path, lease_id, if_match).await })
        })
        .await
    }

    async fn break_lease(
        &self,
        path: &LockPath,
        note: BreakNote,
        if_match: ETag,
    ) -> Result<LeaseBroken, StoreError> {
        let path = path.clone();
        self.send("break a lease", move |store| {
            let (path, note, if_match) = (path.clone(), note.clone(), if_match.clone());
            Box::pin(async move { store.break_lease(&path, note, if_match).await })
        })
        .await
    }

    async fn write_record(&self, path: &LockPath, write: Write) -> Result<Written, StoreError> {
        let path = path.clone();
        self.send("write a record", move |store| {
            let (path, write) = (path.clone(), write.clone());
            Box::pin(async move { store.write_record(&path, write).await })
        })
        .await
    }

    async fn read_record(&self, path: &LockPath) -> Result<StoredLock, StoreError> {
        let path = path.clone();
        self.send("read a record", move |store| {
            let path = path.clone();
            Box::pin(async move { store.read_record(&path).await })
        })
        .await
    }

    async fn read_break_note(&self, path: &LockPath) -> Result<Option<BreakNote>, StoreError> {
        let path = path.clone();
        self.send("read a break's note", move |store| {
            let path = path.clone();
            Box::pin(async move { store.read_break_note(&path).await })
        })
        .await
    }

    async fn read_plan(&self, path: &LockPath) -> Result<PlanRead, StoreError> {
        let path = path.clone();
        self.send("read a plan", move |store| {
            let path = path.clone();
            Box::pin(async move { store.read_plan(&path).await })
        })
        .await
    }

    async fn write_plan(
        &self,
        path: &LockPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<PlanWritten, StoreError> {
        let path = path.clone();
        self.send("write a plan", move |store| {
            let (path, text, if_match) = (path.clone(), text.clone(), if_match.clone());
            Box::pin(async move { store.write_plan(&path, text, if_match).await })
        })
        .await
    }

    async fn delete_plan(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        let path = path.clone();
        self.send("delete a plan", move |store| {
            let (path, if_match) = (path.clone(), if_match.clone());
            Box::pin(async move { store.delete_plan(&path, if_match).await })
        })
        .await
    }

    async fn list_plans(&self, request: List) -> Result<PlanListing, StoreError> {
        self.send("list the plans", move |store| {
            let request = request.clone();
            Box::pin(async move { store.list_plans(request).await })
        })
        .await
    }

    fn has_timers(&self) -> bool {
        self.store.has_timers()
    }

    async fn read_timer(&self, timer: &TimerPath) -> Result<TimerRead, StoreError> {
        let timer = timer.clone();
        self.send("read a timer's status", move |store| {
            let timer = timer.clone();
            Box::pin(async move { store.read_timer(&timer).await })
        })
        .await
    }

    async fn write_timer(
        &self,
        timer: &TimerPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<TimerWritten, StoreError> {
        let timer = timer.clone();
        self.send("write a timer's status", move |store| {
            let (timer, text, if_match) = (timer.clone(), text.clone(), if_match.clone());
            Box::pin(async move { store.write_timer(&timer, text, if_match).await })
        })
        .await
    }

    async fn list(&self, request: List) -> Result<Listing, StoreError> {
        self.send("list locks", move |store| {
            let request = request.clone();
            Box::pin(async move { store.list(request).await })
        })
        .await
    }

    async fn delete(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        let path = path.clone();
        self.send("delete a lock", move |store| {
            let (path, if_match) = (path.clone(), if_match.clone());
            Box::pin(async move { store.delete(&path, if_match).await })
        })
        .await
    }

    async fn check(&self, container: &Container) -> Result<StoreTime, StoreError> {
        let container = container.clone();
        self.send("read the container", move |store| {
            let container = container.clone();
            Box::pin(async move { store.check(&container).await })
        })
        .await
    }

    fn tells_record(&self) -> bool {
        self.store.tells_record()
    }

    fn kind(&self) -> &'static str {
        self.store.kind()
    }
}

//! Makes an image the base of a build. An image that the workspace has used before is not fetched
//! again, if the registry still serves it and its name still resolves to the same digest.

use std::{collections::HashMap, io, time::Instant};

use bytes::Bytes;
use futures_util::stream;
use pandastack_kit::Secret;
use pandastack_model::{Fault, SandboxOrigin};
use pandastack_wire_public::RegistryAuth;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    drive::{BuildBase, BuildJob},
    exec_defaults,
    failure::BuildFailure,
    image::{
        ImageReference, PullError, RegistryCredentials,
        flatten::{self, FetchedLayer, FlattenedImage},
        reference,
        registry::{Image, RegistryClient},
        tree::TreeListing,
    },
    machine::BuildMachine,
    rootfs::{ROOT, size_of},
    upload::BuildSpool,
};
use crate::{Control, store::CachedLayer};

/// Most pieces of an archive that wait for the machine.
const PIECES_AHEAD_MAX: usize = 16;

impl Control {
    /// Makes the base of a build from an image.
    pub(super) async fn image_ground(
        &self,
        job: &BuildJob,
        reference: &ImageReference,
        deadline: Instant,
    ) -> Result<BuildBase, BuildFailure> {
        let auth = credentials(job, reference);
        let mut registry = RegistryClient::new(&self.templates.images, reference, auth.as_ref());
        job.log.say(format!("resolving image {reference}")).await;
        let image = registry.resolve().await.map_err(|error| BuildFailure::of_image(reference, error))?;
        let size = size_of(&job.ask);
        let key = format!("image 1 {} {} {} {}", image.digest.as_str(), job.ask.size_mb, size.cpus, size.memory_mib);
        let mut ground = BuildBase {
            template: job.ask.name.clone(),
            origin: SandboxOrigin::Template,
            cached: None,
            key: key.clone(),
            base: reference.to_string(),
            size,
            disk_mib: job.ask.size_mb,
            settings: image.said.settings.clone(),
        };
        if let Some(layer) = self.store.cached_layer(&job.build.workspace, &key, self.clock.now_ns()).await? {
            job.log.say(format!("image {} CACHED", image.digest.short())).await;
            ground.origin = SandboxOrigin::Layer(layer);
            ground.cached = Some(layer);
            return Ok(ground);
        }
        let mut spool = self.templates.builds.pull_spool(&job.build.workspace)?;
        let layers = fetch(job, &mut registry, &image, &mut spool)
            .await
            .map_err(|error| BuildFailure::of_image(reference, error))?;
        let volume = self.root_volume(job).await?;
        self.pour(job, reference, (layers, &ground), volume, deadline).await?;
        drop(spool);
        let view = self.boot_root(job, volume, exec_defaults(&ground.settings)).await?;
        let cached = CachedLayer { key, layer: view.layer, own: view.own };
        self.store.cache_layer(&job.build.workspace, &cached, self.clock.now_ns()).await?;
        ground.origin = SandboxOrigin::Layer(view.layer);
        Ok(ground)
    }

    /// Unpacks the layers, as one archive, onto the volume.
    async fn pour(
        &self,
        job: &BuildJob,
        reference: &ImageReference,
        (layers, ground): (Vec<FetchedLayer>, &BuildBase),
        volume: pandastack_model::VolumeId,
        deadline: Instant,
    ) -> Result<(), BuildFailure> {
        let stop = CancellationToken::new();
        // A build that ends early stops the walk too.
        let _stopping = stop.clone().drop_guard();
        let (folder, these, token) = (ground.settings.workdir.clone(), layers.clone(), stop.clone());
        let look = move || {
            let looked = flatten::look(&these, folder.as_deref(), &token);
            looked.map(|FlattenedImage { tree, left_out }| (tree.list(), left_out))
        };
        let bad = |error: flatten::FlattenError| BuildFailure::of_image(reference, PullError::Bad(error.to_string()));
        let (listing, left_out) = self.scope.block("read layers", look).await.map_err(Fault::bug)?.map_err(bad)?;
        let (files, bytes) = (listing.entries().len(), listing.bytes());
        if bytes > job.ask.size_mb << 20 {
            let text = format!(
                "the unpacked image needs {} MiB, but the disk has {} MiB; request more with size_mb",
                bytes >> 20,
                job.ask.size_mb
            );
            return Err(BuildFailure::of_image(reference, PullError::Bad(text)));
        }
        job.log
            .say(format!("unpacking {files} files, {} MiB, onto a disk of {} MiB", bytes >> 20, job.ask.size_mb))
            .await;
        if left_out > 0 {
            job.log.say(format!("note: {left_out} device nodes are omitted; the machine creates its own")).await;
        }
        let builder = self.unpacking(job, volume, deadline).await?;
        let words = ["tar", "-xpf", "-", "--numeric-owner", "-C", ROOT].map(str::to_owned).to_vec();
        self.stream_layers_into(&builder, words, (listing, layers), &stop).await?.map_err(bad)?;
        self.finish_root(builder).await
    }

    /// Streams the merged layers as an archive to a command of a machine.
    pub(super) async fn stream_layers_into(
        &self,
        builder: &BuildMachine<'_>,
        words: Vec<String>,
        (listing, layers): (TreeListing, Vec<FetchedLayer>),
        stop: &CancellationToken,
    ) -> Result<Result<(), flatten::FlattenError>, BuildFailure> {
        let ((pieces, mut poured), stop) = (mpsc::channel(PIECES_AHEAD_MAX), stop.clone());
        let write = move || {
            flatten::write(&listing, &layers, io::BufWriter::with_capacity(64 * 1024, ChannelWriter(pieces)), &stop)
        };
        let stream = stream::poll_fn(move |context| poured.poll_recv(context));
        let (written, fed) = tokio::join!(self.scope.block("write layers", write), builder.feed(words, stream));
        // First the machine's failure: it is also the reason why the write failed.
        fed.map_err(|failure| failure.at("unpacking the image"))?;
        Ok(written.map_err(Fault::bug)?)
    }
}

/// Returns the build's credentials if they are for the image's registry.
pub(super) fn credentials(job: &BuildJob, reference: &ImageReference) -> Option<RegistryCredentials> {
    let meant = |auth: &&RegistryAuth| match &auth.registry {
        Some(named) => reference::at(named) == reference.registry,
        None => true,
    };
    let RegistryAuth { username, password, .. } = job.ask.registry_auth.as_ref().filter(meant)?;
    Some(RegistryCredentials { username: username.clone(), password: Secret::new(password.0.clone()) })
}

/// Fetches all layers of an image.
pub(super) async fn fetch(
    job: &BuildJob,
    registry: &mut RegistryClient<'_>,
    image: &Image,
    spool: &mut BuildSpool,
) -> Result<Vec<FetchedLayer>, PullError> {
    let (mut layers, mut parts) = (Vec::new(), HashMap::new());
    for (number, (blob, unpacked)) in image.layers.iter().zip(&image.said.unpacked).enumerate() {
        let named = format!(
            "layer {}/{} {} ({} KiB)",
            number + 1,
            image.layers.len(),
            blob.digest.short(),
            blob.bytes.div_ceil(1024)
        );
        let part = match parts.get(&blob.digest) {
            // Some images contain the same layer more than once.
            Some(part) => *part,
            None => {
                job.log.say(format!("fetching {named}")).await;
                registry.fetch(blob, spool, number).await?;
                parts.insert(blob.digest.clone(), number);
                number
            }
        };
        layers.push(FetchedLayer { path: spool.path(part), unpacked: unpacked.clone() });
    }
    Ok(layers)
}

/// Sends written bytes to a channel.
struct ChannelWriter(mpsc::Sender<io::Result<Bytes>>);

impl io::Write for ChannelWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the build machine stopped reading");
        self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes))).map_err(gone)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! An image that a build copies files from. It is never started, so it need not hold a system or
//! anything that runs.

use pandastack_model::Fault;
use tokio_util::sync::CancellationToken;

use super::{
    drive::BuildJob,
    failure::BuildFailure,
    image::{
        ImageReference, PullError,
        flatten::{self, FetchedLayer, FlattenedImage},
        pick::{PickedFiles, pick},
        registry::{Image, RegistryClient},
    },
    machine::BuildMachine,
    pull::{credentials, fetch},
    take::StagedFiles,
    upload::BuildSpool,
};
use crate::Control;

/// An image, with as much of it as was fetched.
pub struct ImageSource {
    reference: ImageReference,
    image: Image,
    /// Its layers, once a step needed them. They are deleted with the build.
    fetched: Option<(Vec<FetchedLayer>, BuildSpool)>,
}

impl ImageSource {
    /// Identifies the image in cache keys.
    pub fn key(&self) -> String {
        format!("image {}", self.image.digest.as_str())
    }
}

impl Control {
    /// Resolves the name of an image. Fetches no layers: the step may be in the cache.
    pub(super) async fn image_source(
        &self,
        job: &BuildJob,
        reference: ImageReference,
    ) -> Result<ImageSource, BuildFailure> {
        job.log.say(format!("resolving image {reference}")).await;
        let auth = credentials(job, &reference);
        let image = RegistryClient::new(&self.templates.images, &reference, auth.as_ref()).resolve().await;
        let image = image.map_err(|error| BuildFailure::of_image(&reference, error))?;
        Ok(ImageSource { reference, image, fetched: None })
    }

    /// Copies files of an image into a folder of a machine.
    pub(super) async fn copy_files_into(
        &self,
        job: &BuildJob,
        source: &mut ImageSource,
        paths: &[String],
        (to, folder): (&BuildMachine<'_>, &str),
    ) -> Result<StagedFiles, BuildFailure> {
        let ImageSource { reference, image, fetched } = source;
        let (layers, _) = match fetched {
            Some(fetched) => fetched,
            None => {
                let mut spool = self.templates.builds.pull_spool(&job.build.workspace)?;
                let auth = credentials(job, reference);
                let mut registry = RegistryClient::new(&self.templates.images, reference, auth.as_ref());
                let layers = fetch(job, &mut registry, image, &mut spool).await;
                fetched.insert((layers.map_err(|error| BuildFailure::of_image(reference, error))?, spool))
            }
        };
        let stop = CancellationToken::new();
        // A build that ends early stops the walk too.
        let _stopping = stop.clone().drop_guard();
        let bad = |error: flatten::FlattenError| BuildFailure::of_image(reference, PullError::Bad(error.to_string()));
        let (these, token, paths) = (layers.clone(), stop.clone(), paths.to_vec());
        let look = move || flatten::look(&these, None, &token).map(|FlattenedImage { tree, .. }| pick(&tree, &paths));
        let picked = self.scope.block("read layers", look).await.map_err(Fault::bug)?.map_err(bad)?;
        let PickedFiles { listing, paths, folders } = picked.map_err(BuildFailure::new)?;
        to.make_folders(&[folder.to_owned()]).await?;
        // `-o`: owners in the image mean nothing in this machine.
        let words = ["tar", "-xpof", "-", "-C", folder].map(str::to_owned).to_vec();
        self.stream_layers_into(to, words, (listing, layers.clone()), &stop).await?.map_err(bad)?;
        Ok(StagedFiles { paths, folders })
    }
}

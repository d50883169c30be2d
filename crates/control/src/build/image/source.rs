//! An image that a build takes files from, without ever starting it: it need not hold a system, or anything that runs.

use pandastack_model::Fault;
use tokio_util::sync::CancellationToken;

use super::{
    PullError, Reference,
    flatten::{self, Flat, Layer},
    pick::{Picked, pick},
    pull::fetch,
    registry::Image,
};
use crate::{
    Control,
    build::{drive::Job, failure::Failure, machine::Builder, take::Staged, upload::Spool},
};

/// An image as far as it is here.
pub struct Source {
    reference: Reference,
    image: Image,
    /// Its layers, once a step needed them. They go with the build.
    fetched: Option<(Vec<Layer>, Spool)>,
}

impl Source {
    /// Gives what stands for all of it in the keys of the cache.
    pub fn key(&self) -> String {
        format!("image {}", self.image.digest.as_str())
    }
}

impl Control {
    /// Finds out what the name of an image stands for. Nothing is fetched: the step may be in the cache.
    pub(in crate::build) async fn image_source(&self, job: &Job, reference: Reference) -> Result<Source, Failure> {
        job.log.say(format!("looking for image {reference}")).await;
        let image = self.registry(job, &reference).resolve().await.map_err(|error| error.about(&reference))?;
        Ok(Source { reference, image, fetched: None })
    }

    /// Puts files of an image into a folder of a machine.
    pub(in crate::build) async fn pour_some(
        &self,
        job: &Job,
        source: &mut Source,
        paths: &[String],
        (to, folder): (&Builder<'_>, &str),
    ) -> Result<Staged, Failure> {
        let Source { reference, image, fetched } = source;
        let (layers, _) = match fetched {
            Some(fetched) => fetched,
            None => {
                let mut spool = self.builds.pull_spool(&job.build.workspace)?;
                let layers = fetch(job, &mut self.registry(job, reference), image, &mut spool).await;
                fetched.insert((layers.map_err(|error| error.about(reference))?, spool))
            }
        };
        let stop = CancellationToken::new();
        // A build that ends early ends the walk too.
        let _stopping = stop.clone().drop_guard();
        let bad = |error: flatten::FlattenError| PullError::Bad(error.to_string()).about(reference);
        let (these, token) = (layers.clone(), stop.clone());
        let look = move || flatten::look(&these, None, &token);
        let Flat { all, .. } = self.scope.block("look at layers", look).await.map_err(Fault::bug)?.map_err(bad)?;
        let Picked { all, paths, folders } = pick(&all, paths).map_err(Failure::new)?;
        to.make_folders(&[folder.to_owned()]).await?;
        // Whose it was elsewhere has no meaning here.
        let words = ["tar", "-xpof", "-", "-C", folder].map(str::to_owned).to_vec();
        let flat = Flat { all, left_out: 0 };
        self.pour_into(to, words, (flat, layers.clone()), &stop).await?.map_err(bad)?;
        Ok(Staged { paths, folders })
    }
}

"""Apps, functions and schedules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, AsyncGenerator, Dict, List, Optional

from .._core.call import EmptyCall, EventsCall, FormFile, JsonCall, RequestForm, segment
from .._wire import given, list_of
from . import flavour

if TYPE_CHECKING:
    from .client import AsyncPandaStack

Object = Dict[str, Any]


class _Resource:
    """Sends requests whose objects are plain dicts."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def _object(
        self,
        method: str,
        path: str,
        body: Any = None,
    ) -> Object:
        call: JsonCall[Optional[Object]] = JsonCall(method, path, json=body)
        return await self._client.transport.json(call) or {}

    async def _list(self, path: str, name: str = "items") -> List[Object]:
        answer = await self._client.transport.json(JsonCall[Any]("GET", path))
        return list_of(answer, name, "items")

    async def _delete(self, path: str) -> None:
        await self._client.transport.empty(EmptyCall("DELETE", path))


class AsyncAppsAPI(_Resource):
    """Apps that are deployed from a Git repository."""

    async def create(
        self,
        name: str,
        git_url: str,
        *,
        git_branch: Optional[str] = None,
        framework: Optional[str] = None,
        install_command: Optional[str] = None,
        build_command: Optional[str] = None,
        start_command: Optional[str] = None,
        root_directory: Optional[str] = None,
        port: Optional[int] = None,
        env: Optional[Dict[str, str]] = None,
        template: Optional[str] = None,
        cpu: Optional[int] = None,
        memory_mb: Optional[int] = None,
    ) -> Object:
        """Create an app. `deploy` starts it."""
        body = given(
            name=name,
            git_url=git_url,
            git_branch=git_branch,
            framework=framework,
            install_command=install_command,
            build_command=build_command,
            start_command=start_command,
            root_directory=root_directory,
            port=port,
            env=env,
            template=template,
            cpu=cpu,
            memory_mb=memory_mb,
        )
        return await self._object("POST", "/v1/apps", body)

    async def list(self) -> List[Object]:
        return await self._list("/v1/apps")

    async def get(self, app_id: str) -> Object:
        return await self._object("GET", f"/v1/apps/{segment(app_id)}")

    async def update(self, app_id: str, **fields: Any) -> Object:
        """Change fields of an app, by the names of `create`. It is not deployed again."""
        return await self._object("PATCH", f"/v1/apps/{segment(app_id)}", fields)

    async def delete(self, app_id: str) -> None:
        await self._delete(f"/v1/apps/{segment(app_id)}")

    async def deploy(self, app_id: str, *, git_ref: Optional[str] = None) -> Object:
        """Start a deployment. `deploy_logs` follows it."""
        body = {"git_ref": git_ref} if git_ref else None
        return await self._object("POST", f"/v1/apps/{segment(app_id)}/deploys", body)

    async def deployments(self, app_id: str) -> List[Object]:
        """The deployments of an app, newest first."""
        return await self._list(f"/v1/apps/{segment(app_id)}/deploys")

    async def deployment(self, app_id: str, deployment_id: str) -> Object:
        return await self._object(
            "GET", f"/v1/apps/{segment(app_id)}/deploys/{segment(deployment_id)}"
        )

    async def rollback(self, app_id: str) -> Object:
        """Go back to the deployment before."""
        return await self._object("POST", f"/v1/apps/{segment(app_id)}/rollback")

    async def deploy_logs(self, app_id: str, deployment_id: str) -> AsyncGenerator[str, None]:
        """The lines of a deployment's log, until it has ended."""
        path = f"/v1/apps/{segment(app_id)}/deploys/{segment(deployment_id)}/logs"
        stream = self._client.transport.events(EventsCall("GET", path))
        async with flavour.closing(stream) as events:
            async for event in events:
                if event.event == "done":
                    return
                yield event.data

    async def previews(self) -> List[Object]:
        """The apps that are previews of pull requests."""
        return [app for app in await self.list() if app.get("is_preview")]

    async def preview_repos(self) -> List[Object]:
        """The repositories whose pull requests get previews."""
        return await self._list("/v1/preview-repos", "repos")

    async def enable_preview_repo(
        self,
        github_repo_id: int,
        *,
        repo_full_name: Optional[str] = None,
    ) -> Object:
        body = given(github_repo_id=github_repo_id, repo_full_name=repo_full_name)
        return await self._object("POST", "/v1/preview-repos", body)

    async def disable_preview_repo(self, github_repo_id: int) -> None:
        await self._delete(f"/v1/preview-repos/{segment(github_repo_id)}")

    async def list_env(self, app_id: str) -> List[Object]:
        """The environment variables of an app. Values of secrets are not shown."""
        return await self._list(f"/v1/apps/{segment(app_id)}/env", "env")

    async def set_env(
        self,
        app_id: str,
        key: str,
        value: str,
        *,
        secret: bool = False,
        scope: str = "all",
    ) -> Object:
        body = {"value": value, "secret": secret, "scope": scope}
        return await self._object("PUT", f"/v1/apps/{segment(app_id)}/env/{segment(key)}", body)

    async def unset_env(self, app_id: str, key: str) -> None:
        await self._delete(f"/v1/apps/{segment(app_id)}/env/{segment(key)}")

    async def import_env(
        self,
        app_id: str,
        dotenv: str,
        *,
        secret: bool = False,
        scope: str = "all",
    ) -> Object:
        """Set the variables of a text with lines such as `KEY=value`."""
        body = {"dotenv": dotenv, "secret": secret, "scope": scope}
        return await self._object("POST", f"/v1/apps/{segment(app_id)}/env/import", body)

    async def add_domain(self, app_id: str, domain: str) -> Object:
        """Serve an app under a domain of yours. The answer lists the DNS records to make."""
        return await self._object("POST", f"/v1/apps/{segment(app_id)}/domains", {"domain": domain})

    async def domains(self, app_id: str) -> List[Object]:
        return await self._list(f"/v1/apps/{segment(app_id)}/domains", "domains")

    async def get_domain(self, app_id: str, domain: str) -> Object:
        return await self._object("GET", f"/v1/apps/{segment(app_id)}/domains/{segment(domain)}")

    async def remove_domain(self, app_id: str, domain: str) -> None:
        await self._delete(f"/v1/apps/{segment(app_id)}/domains/{segment(domain)}")

    async def list_preview_env(self, github_repo_id: int) -> List[Object]:
        """The environment variables of all previews of a repository."""
        return await self._list(f"/v1/repos/{segment(github_repo_id)}/preview-env", "env")

    async def set_preview_env(
        self,
        github_repo_id: int,
        key: str,
        value: str,
        *,
        secret: bool = False,
    ) -> Object:
        path = f"/v1/repos/{segment(github_repo_id)}/preview-env/{segment(key)}"
        return await self._object("PUT", path, {"value": value, "secret": secret})

    async def unset_preview_env(self, github_repo_id: int, key: str) -> None:
        await self._delete(f"/v1/repos/{segment(github_repo_id)}/preview-env/{segment(key)}")

    async def import_preview_env(
        self,
        github_repo_id: int,
        dotenv: str,
        *,
        secret: bool = False,
    ) -> Object:
        path = f"/v1/repos/{segment(github_repo_id)}/preview-env/import"
        return await self._object("POST", path, {"dotenv": dotenv, "secret": secret})


class AsyncFunctionsAPI(_Resource):
    """Functions: code that runs when it is called."""

    async def create(
        self,
        name: str,
        runtime: str,
        file_path: str,
        *,
        entrypoint: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        template: str = "code-interpreter",
        public: bool = False,
    ) -> Object:
        """Create a function of one file. `runtime` is `python` or `nodejs`."""
        import base64

        path = Path(file_path)
        body = given(
            name=name,
            runtime=runtime,
            entrypoint=entrypoint or path.name,
            code=base64.b64encode(path.read_bytes()).decode("ascii"),
            template=template,
            public=public,
            env=env,
        )
        return await self._object("POST", "/v1/functions", body)

    async def deploy(
        self,
        name: str,
        runtime: str,
        path: str,
        *,
        entrypoint: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        template: str = "code-interpreter",
        public: bool = False,
    ) -> Object:
        """Deploy a file or directory, as a new function or a new version of it."""
        from .._bundles import make_bundle

        start = entrypoint or ("handler.js" if runtime == "nodejs" else "handler.py")
        bundle = await flavour.in_thread(lambda: make_bundle(Path(path), start))
        function = next((one for one in await self.list() if one.get("name") == name), None)
        if function is None:
            body = given(
                name=name,
                runtime=runtime,
                entrypoint=start,
                template=template,
                public=public,
                env=env,
            )
            function = await self._object("POST", "/v1/functions", body)
        return await self.deploy_bundle(str(function["id"]), bundle, start)

    async def deploy_bundle(
        self,
        function_id: str,
        bundle: bytes,
        entrypoint: Optional[str] = None,
    ) -> Object:
        """Deploy a packed directory (tar.gz)."""
        form = RequestForm(given(entrypoint=entrypoint), [FormFile("bundle", bundle)])
        call = JsonCall[Object]("POST", f"/v1/functions/{segment(function_id)}/deploy", form=form)
        return await self._client.transport.json(call)

    async def metrics(self, function_id: str, period_hours: int = 24) -> Object:
        """Number of calls, share of errors, and durations."""
        call = JsonCall[Object](
            "GET",
            f"/v1/functions/{segment(function_id)}/metrics",
            query={"period": period_hours},
        )
        return await self._client.transport.json(call)

    async def list(self) -> List[Object]:
        return await self._list("/v1/functions")

    async def get(self, function_id: str) -> Object:
        return await self._object("GET", f"/v1/functions/{segment(function_id)}")

    async def update(
        self,
        function_id: str,
        *,
        name: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        public: Optional[bool] = None,
        entrypoint: Optional[str] = None,
    ) -> Object:
        body = given(name=name, env=env, public=public, entrypoint=entrypoint)
        return await self._object("PATCH", f"/v1/functions/{segment(function_id)}", body)

    async def delete(self, function_id: str) -> None:
        await self._delete(f"/v1/functions/{segment(function_id)}")

    async def invoke(self, function_id: str, *, input: Optional[Any] = None) -> Object:
        """Call a function and return its run, also if its code failed."""
        body = given(input=input)
        return await self._object("POST", f"/v1/functions/{segment(function_id)}/invoke", body)

    async def trigger(self, function_id: str, *, input: Optional[Any] = None) -> Object:
        """The same as `invoke`."""
        return await self.invoke(function_id, input=input)

    async def runs(self, function_id: str) -> List[Object]:
        """The last runs, newest first."""
        return await self._list(f"/v1/functions/{segment(function_id)}/runs")


class AsyncSchedulesAPI(_Resource):
    """Schedules: functions that run at certain times."""

    async def create(
        self,
        name: str,
        function_id: str,
        cron: str,
        *,
        paused: bool = False,
    ) -> Object:
        """Run a function by a cron rule of five fields, in UTC."""
        body = {"name": name, "function_id": function_id, "cron": cron, "paused": paused}
        return await self._object("POST", "/v1/schedules", body)

    async def list(self) -> List[Object]:
        return await self._list("/v1/schedules")

    async def get(self, schedule_id: str) -> Object:
        return await self._object("GET", f"/v1/schedules/{segment(schedule_id)}")

    async def update(
        self,
        schedule_id: str,
        *,
        cron: Optional[str] = None,
        paused: Optional[bool] = None,
    ) -> Object:
        body = given(cron=cron, paused=paused)
        return await self._object("PATCH", f"/v1/schedules/{segment(schedule_id)}", body)

    async def delete(self, schedule_id: str) -> None:
        await self._delete(f"/v1/schedules/{segment(schedule_id)}")

    async def trigger(self, schedule_id: str) -> Object:
        """Run the function now."""
        return await self._object("POST", f"/v1/schedules/{segment(schedule_id)}/trigger", {})

    async def runs(self, schedule_id: str) -> List[Object]:
        """The last runs, newest first."""
        return await self._list(f"/v1/schedules/{segment(schedule_id)}/runs")

"""Errors of the REST API: a class carries its service code and HTTP status, and one place turns them into responses.

Bodies are `{"error_code": ..., "message": ...}`, as the official SDK's deserializer reads them.
"""

from __future__ import annotations

import errno
from typing import ClassVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from databricks_bridge.local.layout import LeadsOutside
from databricks_bridge.local.refusals import Area, words
from databricks_bridge.local.refusals.api import family_of
from databricks_bridge.local.refusals.model import HERE
from databricks_bridge.local.server.responses import JSONResponse

_NO_SUCH_NAME = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.EILSEQ})


class ApiError(Exception):
    """An answer that is no. Raise a subclass with a message that a user of the API can act on."""

    status: ClassVar[int] = 500
    error_code: ClassVar[str | int] = "INTERNAL_ERROR"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidParameterValue(ApiError):
    """400; the Jobs API says it of a job or run that does not exist too."""

    status, error_code = 400, "INVALID_PARAMETER_VALUE"


class MalformedRequest(ApiError):
    status, error_code = 400, "MALFORMED_REQUEST"


class RequestTooLarge(MalformedRequest):
    """413: the body has more bytes than this route reads."""

    status: ClassVar[int] = 413


class RequestTimeout(MalformedRequest):
    """408: the body did not come in time."""

    status: ClassVar[int] = 408


class InvalidState(ApiError):
    """400: what is asked for does not fit the present state, such as repairing an active run."""

    status, error_code = 400, "INVALID_STATE"


class FeatureDisabled(ApiError):
    """400: Databricks has it, this local workspace does not."""

    status, error_code = 400, "FEATURE_DISABLED"


class ResourceAlreadyExists(ApiError):
    status, error_code = 400, "RESOURCE_ALREADY_EXISTS"


class NoCredential(ApiError):
    """401: no credential was sent. Here, and for a wrong token, Databricks sends the number as error_code."""

    status, error_code = 401, 401


class InvalidAccessToken(ApiError):
    """403: a token that this workspace does not know."""

    status, error_code = 403, 403


class PermissionDenied(ApiError):
    status, error_code = 403, "PERMISSION_DENIED"


class ResourceDoesNotExist(ApiError):
    status, error_code = 404, "RESOURCE_DOES_NOT_EXIST"


class NotFound(ApiError):
    status, error_code = 404, "NOT_FOUND"


class EndpointNotFound(ApiError):
    """404: an address that this workspace does not serve, whether Databricks has it or not.

    Never a 5xx: official clients try that again, for up to half a minute, and then drop the message.
    """

    status, error_code = 404, "ENDPOINT_NOT_FOUND"


def install(app: FastAPI) -> None:
    """Turn every error into a body of the API's shape."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(LeadsOutside, _not_there)
    app.add_exception_handler(OSError, _of_the_system)
    app.add_exception_handler(ClientDisconnect, _hung_up)
    app.add_exception_handler(OverflowError, _too_large)
    # Starlette logs the traceback of these, after the answer.
    app.add_exception_handler(Exception, _broken)


def response(error: ApiError) -> JSONResponse:
    return JSONResponse({"error_code": error.error_code, "message": error.message}, status_code=error.status)


async def _api_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return response(error)


async def _http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code in (404, 405):
        path = request.scope["path"]
        asked = f"No API found for '{request.method} {path}'"
        if path.startswith("/api/"):
            return response(EndpointNotFound(f"{asked}: {_not_served(path)}."))
        return response(EndpointNotFound(asked))
    return JSONResponse({"error_code": "BAD_REQUEST", "message": str(error.detail)}, status_code=error.status_code)


def _not_served(path: str) -> str:
    family = family_of(path)
    return words(Area.API, family) if family else f"{HERE} does not serve it"


async def _not_valid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
    return response(InvalidParameterValue(problems))


async def _not_there(request: Request, error: Exception) -> JSONResponse:
    return response(ResourceDoesNotExist(f"{error}."))


async def _hung_up(request: Request, error: Exception) -> JSONResponse:
    """Nobody hears it; without it the traceback would be logged as if it were a fault."""
    return response(MalformedRequest("The body of the request has not come to its end."))


async def _too_large(request: Request, error: Exception) -> JSONResponse:
    return response(InvalidParameterValue(f"{request.scope['path']}: a number is out of range."))


async def _of_the_system(request: Request, error: Exception) -> JSONResponse:
    """A name that no file can have is the caller's mistake; any other trouble with files is ours."""
    assert isinstance(error, OSError)
    if error.errno in _NO_SUCH_NAME:
        return response(InvalidParameterValue(f"{request.scope['path']} names what cannot be: {error.strerror}."))
    return await _broken(request, error)


async def _broken(request: Request, error: Exception) -> JSONResponse:
    return response(ApiError(f"The local workspace has a fault of its own: {type(error).__name__}: {error}"))

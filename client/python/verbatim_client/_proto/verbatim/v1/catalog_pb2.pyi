from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListStatementsRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ListStatementsResponse(_message.Message):
    __slots__ = ["statements"]
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    statements: _containers.RepeatedCompositeFieldContainer[Statement]
    def __init__(self, statements: _Optional[_Iterable[_Union[Statement, _Mapping]]] = ...) -> None: ...

class ListTestsRequest(_message.Message):
    __slots__ = ["patterns"]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    patterns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, patterns: _Optional[_Iterable[str]] = ...) -> None: ...

class ListTestsResponse(_message.Message):
    __slots__ = ["catalogue", "tests"]
    CATALOGUE_FIELD_NUMBER: _ClassVar[int]
    TESTS_FIELD_NUMBER: _ClassVar[int]
    catalogue: str
    tests: _containers.RepeatedCompositeFieldContainer[Test]
    def __init__(self, tests: _Optional[_Iterable[_Union[Test, _Mapping]]] = ..., catalogue: _Optional[str] = ...) -> None: ...

class Statement(_message.Message):
    __slots__ = ["about", "id", "source", "title"]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    about: str
    id: str
    source: str
    title: str
    def __init__(self, id: _Optional[str] = ..., title: _Optional[str] = ..., about: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class Test(_message.Message):
    __slots__ = ["about", "aliases", "id", "needs", "parameters", "reading", "revision", "statements"]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    READING_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    about: str
    aliases: _containers.RepeatedScalarFieldContainer[str]
    id: str
    needs: _containers.RepeatedScalarFieldContainer[str]
    parameters: _containers.RepeatedCompositeFieldContainer[TestParameter]
    reading: str
    revision: int
    statements: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ..., revision: _Optional[int] = ..., about: _Optional[str] = ..., reading: _Optional[str] = ..., statements: _Optional[_Iterable[str]] = ..., needs: _Optional[_Iterable[str]] = ..., parameters: _Optional[_Iterable[_Union[TestParameter, _Mapping]]] = ...) -> None: ...

class TestParameter(_message.Message):
    __slots__ = ["about", "default_value", "default_value_when_simulated", "least", "most", "name"]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_VALUE_WHEN_SIMULATED_FIELD_NUMBER: _ClassVar[int]
    LEAST_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    about: str
    default_value: int
    default_value_when_simulated: int
    least: int
    most: int
    name: str
    def __init__(self, name: _Optional[str] = ..., about: _Optional[str] = ..., least: _Optional[int] = ..., most: _Optional[int] = ..., default_value: _Optional[int] = ..., default_value_when_simulated: _Optional[int] = ...) -> None: ...

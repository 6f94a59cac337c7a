"""From a config and options to a plan, or to all that is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.configs import RL, SFT, planned
from synth_train.domain.model.catalog import Gate
from synth_train.domain.model.config.findings import UnknownKeys
from synth_train.domain.model.config.rl import RlConfig
from synth_train.domain.model.config.sft import SftConfig
from synth_train.domain.model.errors import InvalidConfig, UsageError
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.places import Place, Severity
from synth_train.domain.model.plan import Plan, TaskUrl, secrets_in
from synth_train.domain.model.secret import Secret
from synth_train.domain.usecases.plan import settle_task_url

THINKING = "Qwen/Qwen3-4B-Thinking-2507"


def refused(text: str, **given: Any) -> str:
    """What is said of a config that cannot become a plan."""
    with pytest.raises(InvalidConfig) as caught:
        planned(text, **given)
    assert "\n".join(str(caught.value).splitlines()) == str(caught.value)
    return str(caught.value)


def warned(plan: Plan) -> list[str]:
    assert all(problem.severity is Severity.WARNING for problem in plan.warnings)
    return [str(problem) for problem in plan.warnings]


# -- the plain case


def test_an_rl_config_becomes_a_plan() -> None:
    plan = planned(RL)
    assert plan.kind is Kind.RL
    assert (plan.config, plan.path) == ("train.toml", Path("/repo/train.toml"))
    assert (plan.model, plan.model_is_base) == ("Qwen/Qwen3-1.7B", True)
    assert plan.task_url == TaskUrl("https://task.example", "train.toml:7")
    assert isinstance(plan.view, RlConfig)
    assert plan.view.model.base == "Qwen/Qwen3-1.7B"
    assert (plan.dataset, plan.validation, plan.warnings, plan.notes) == (None, None, (), ())


def test_an_sft_config_becomes_a_plan() -> None:
    plan = planned(SFT + '[data]\nvalidation_path = "held_out.jsonl"\n', examples=5)
    assert plan.kind is Kind.SFT
    assert plan.model == "Qwen/Qwen3-4B"
    assert (plan.dataset, plan.validation) == (Path("/repo/rows.jsonl"), Path("/repo/held_out.jsonl"))
    assert plan.examples == 5
    assert isinstance(plan.view, SftConfig)
    assert plan.view.hyperparameters.learning_rate == 5e-6
    assert (plan.task_url, plan.warnings, plan.notes) == (None, (), ())


# -- kind and algorithm


def test_a_config_that_gives_no_kind_away_says_how_to_name_it() -> None:
    with pytest.raises(
        InvalidConfig, match=r"^train\.toml: cannot tell whether this is an RL or an SFT config$"
    ) as caught:
        planned('[training]\nmode = "lora"\n')
    assert "--type" in caught.value.hint


def test_a_config_without_a_kind_is_told_what_it_may_have_meant_and_what_the_smallest_one_has() -> None:
    with pytest.raises(InvalidConfig) as caught:
        planned('type = "sfft"\n\n[algoritm]\n')
    assert str(caught.value).splitlines() == [
        "train.toml: cannot tell whether this is an RL or an SFT config",
        'train.toml:1: type: "sfft" is none of "rl", "sft"; did you mean "sft"?',
        "train.toml:3: algoritm: unknown section; did you mean algorithm?",
    ]
    assert all(word in caught.value.hint for word in ("base in [model]", "task_url in [services]", "data in [job]"))


def test_an_empty_config_is_said_to_be_empty() -> None:
    assert refused("# nothing\n") == (
        "train.toml: cannot tell whether this is an RL or an SFT config: it has no settings at all"
    )


def test_a_type_that_is_none_is_an_error_even_if_the_kind_is_known() -> None:
    assert refused('type = "sfft"\n' + SFT) == (
        'train.toml:1: type: "sfft" is none of "rl", "sft"; did you mean "sft"?'
    )


def test_the_option_decides_the_kind() -> None:
    plan = planned('[training]\nmode = "lora"\n', kind=Kind.SFT, model="Qwen/Qwen3-4B", dataset="rows.jsonl")
    assert plan.kind is Kind.SFT


def test_the_option_does_not_change_the_algorithm() -> None:
    assert "algorithm of RL in an SFT config" in refused(RL, kind=Kind.SFT, model="Qwen/Qwen3-4B", dataset="rows.jsonl")


def test_a_missing_algorithm_is_filled_in_and_said() -> None:
    plan = planned('type = "rl"\n[model]\nbase = "Qwen/Qwen3-4B"\n[services]\ntask_url = "http://t"\n')
    assert plan.table["algorithm"] == {"type": "online", "method": "policy_gradient", "variety": "gspo"}
    assert plan.notes == (
        'train.toml has no [algorithm]: taken as type = "online", method = "policy_gradient", variety = "gspo"',
    )


def test_an_algorithm_of_the_wrong_type_is_only_said_to_be_that() -> None:
    text = SFT.replace('"fft"', "3")
    assert refused(text) == "train.toml:4: algorithm.variety: expected text, got the number 3; put it in quotes"


# -- models


def test_the_model_is_canonicalised_but_not_in_the_table() -> None:
    plan = planned(RL.replace("Qwen/Qwen3", "qwen/qwen3"))
    assert plan.model == "Qwen/Qwen3-1.7B"
    assert plan.table["model"] == {"base": "qwen/qwen3-1.7B"}


@pytest.mark.parametrize(
    ("section", "model", "is_base"),
    [
        ('[model]\nsource = "ft:qwen/qwen3-4b:job_1"', "ft:qwen/qwen3-4b:job_1", False),
        ('[model]\nsource = "qwen/qwen3-4b"', "Qwen/Qwen3-4B", False),
        ('[policy]\nmodel_name = "qwen/qwen3-4b"', "Qwen/Qwen3-4B", True),
        ('[policy]\nsource = "rl:Qwen/Qwen3-4B:job_2"', "rl:Qwen/Qwen3-4B:job_2", False),
        ('[model]\nbase = "Qwen/Qwen3-4B"\n[policy]\nmodel = "gpt-5"', "Qwen/Qwen3-4B", True),
        ('[model]\nlabel = "x"\n[policy]\nmodel_name = "Qwen/Qwen3-4B"', "Qwen/Qwen3-4B", True),
        ('[model]\nbase = "Qwen/Qwen3-4B"\nsource = ""', "Qwen/Qwen3-4B", True),
    ],
)
def test_an_rl_model_is_named_in_one_of_four_places(section: str, model: str, is_base: bool) -> None:
    plan = planned(RL.replace('[model]\nbase = "Qwen/Qwen3-1.7B"', section))
    assert (plan.model, plan.model_is_base) == (model, is_base)


def test_the_option_replaces_every_model_of_an_rl_config_and_counts_as_source() -> None:
    text = RL + 'source = "ft:abc"\n[policy]\nmodel_name = "x"\nsource = "y"\n'
    plan = planned(text, model=" ft:Qwen/Qwen3-8B:job_9 ")
    assert (plan.model, plan.model_is_base) == ("ft:Qwen/Qwen3-8B:job_9", False)


def test_the_option_replaces_the_model_of_an_sft_config() -> None:
    assert planned(SFT.replace("Qwen/Qwen3-4B", "nonsense"), model="qwen/qwen3-8b").model == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (
            "[model]",
            "train.toml:9: model.base: missing: name a catalogue model in base or a fine-tuned one in source,"
            " or give --model",
        ),
        (
            '[model]\nbase = "Qwen/Qwen3-4B"\nsource = "Qwen/Qwen3-4B"',
            "train.toml:11: model.source: base is set as well: one names a catalogue model, the other a fine-tuned one",
        ),
        (
            '[policy]\nmodel_name = "Qwen/Qwen3-4B"\nsource = "Qwen/Qwen3-4B"',
            "train.toml:11: policy.source: model_name is set as well: one names a catalogue model, the other a"
            " fine-tuned one",
        ),
        (
            '[model]\nbase = "Qwen/Qwen3-4C"',
            'train.toml:10: model.base: "Qwen/Qwen3-4C" is not in the catalogue; did you mean Qwen/Qwen3-4B?'
            " All are listed by `synth-ai config models`",
        ),
        (
            '[model]\nsource = "gpt-5"',
            'train.toml:10: model.source: "gpt-5" is not in the catalogue; it holds Qwen3 models, such as'
            " Qwen/Qwen3-4B. All are listed by `synth-ai config models`",
        ),
        (
            '[model]\nbase = "ft:Qwen/Qwen3-4B:job_1"',
            'train.toml:10: model.base: "ft:Qwen/Qwen3-4B:job_1" is a fine-tuned model; put it in source instead',
        ),
        (
            '[model]\nsource = "ft:abc123"',
            'train.toml:10: model.source: "ft:abc123" does not say which catalogue model it was tuned from,'
            " as ft:Qwen/Qwen3-4B:job_1 does",
        ),
        (
            '[model]\nbase = "Qwen/Qwen3-32B"',
            "train.toml:10: model.base: Qwen/Qwen3-32B cannot be trained with RL; Qwen/Qwen3-0.6B, Qwen/Qwen3-1.7B,"
            " Qwen/Qwen3-4B, Qwen/Qwen3-8B, Qwen/Qwen3-14B, Qwen/Qwen3-30B-A3B and others can",
        ),
        (
            '[model]\nsource = "ft:Qwen/Qwen3-32B:job_1"',
            "train.toml:10: model.source: Qwen/Qwen3-32B cannot be trained with RL; Qwen/Qwen3-0.6B, Qwen/Qwen3-1.7B,"
            " Qwen/Qwen3-4B, Qwen/Qwen3-8B, Qwen/Qwen3-14B, Qwen/Qwen3-30B-A3B and others can",
        ),
        ("[model]\nbase = 4", "train.toml:10: model.base: expected text, got the number 4; put it in quotes"),
    ],
)
def test_an_rl_model_that_cannot_be_trained_is_refused_by_name(section: str, problem: str) -> None:
    assert refused(RL.replace('[model]\nbase = "Qwen/Qwen3-1.7B"', section)) == problem


def test_a_policy_that_names_another_model_than_the_one_used_is_a_warning() -> None:
    assert warned(planned(RL + '[policy]\nmodel_name = "Qwen/Qwen3-4B"\n')) == [
        "train.toml:12: policy.model_name: not used, since model.base names another model"
    ]
    assert warned(planned(RL + '[policy]\nmodel_name = "Qwen/Qwen3-1.7B"\n')) == []


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ('""', "train.toml:7: job.model: missing: name a catalogue model, or give --model"),
        (
            '"ft:Qwen/Qwen3-4B:job_1"',
            'train.toml:7: job.model: "ft:Qwen/Qwen3-4B:job_1" is a fine-tuned model; SFT jobs start from a catalogue'
            " model",
        ),
        (
            '"Qwen3-4B"',
            'train.toml:7: job.model: "Qwen3-4B" is not in the catalogue; did you mean Qwen/Qwen3-4B?'
            " All are listed by `synth-ai config models`",
        ),
        ("[]", "train.toml:7: job.model: expected text, got a list"),
    ],
)
def test_an_sft_model_that_cannot_be_trained_is_refused_by_name(model: str, problem: str) -> None:
    assert refused(SFT.replace('"Qwen/Qwen3-4B"', model)) == problem


def test_a_wrong_option_is_named_as_the_place() -> None:
    assert refused(SFT, model="gpt-5").startswith('--model: "gpt-5" is not in the catalogue')


def test_sft_trains_models_that_rl_does_not() -> None:
    assert planned(SFT, model="Qwen/Qwen3-32B").model == "Qwen/Qwen3-32B"


def test_an_experimental_model_is_refused_with_both_ways_to_allow_it() -> None:
    assert refused(SFT, model=THINKING) == (
        f"--model: {THINKING} is experimental; allow it with --allow-experimental or SDK_EXPERIMENTAL=1"
    )
    assert "is experimental" in refused(RL, model=f"ft:{THINKING}:job_1")


def test_an_experimental_model_that_is_allowed_is_a_warning() -> None:
    assert warned(planned(SFT.replace("Qwen/Qwen3-4B", THINKING), gate=Gate(open=True))) == [
        f"train.toml:7: job.model: {THINKING} is experimental: it may fail, change or go away"
    ]


def test_further_models_can_be_made_experimental() -> None:
    assert "is experimental" in refused(SFT, gate=Gate(also=frozenset({"qwen/qwen3-4b"})))


def test_without_the_catalogue_any_model_will_do() -> None:
    assert planned(SFT, model=" ./my-model ", catalogue=False).model == "/repo/my-model"
    plan = planned(RL, model="tiny", catalogue=False)
    assert (plan.model, plan.model_is_base) == ("tiny", False)


@pytest.mark.parametrize("name", ["./base", "/repo/elsewhere/base", "~/base"])
def test_the_folder_of_a_model_must_be_there_if_it_is_of_this_machine(name: str) -> None:
    here = {"catalogue": False, "models_here": True}
    assert "--model: there is no such folder; looked for " in refused(SFT, model=name, **here)
    assert planned(SFT, model=name, catalogue=False).model.endswith("/base"), "it may be on the machine that serves"


def test_the_folder_of_a_model_is_looked_up_beside_the_config_and_then_in_the_working_directory() -> None:
    text = SFT.replace("Qwen/Qwen3-4B", "./base")
    files = {"/repo/rows.jsonl": b"{}\n", "/repo/base/config.json": b"{}"}
    files["/repo/configs/rows.jsonl"] = b"{}\n"
    here: dict[str, Any] = {"catalogue": False, "models_here": True, "at": "configs/train.toml"}

    assert planned(text, files=files, **here).model == "/repo/base"
    files["/repo/configs/base/config.json"] = b"{}"
    assert planned(text, files=files, **here).model == "/repo/configs/base"
    assert refused(text, files={"/repo/rows.jsonl": b"{}\n"}, **here).endswith(
        "job.model: there is no such folder; looked for /repo/configs/base, then for /repo/base"
    )


@pytest.mark.parametrize("text", [SFT, RL])
def test_a_model_that_is_in_no_catalogue_is_refused_with_the_backends_that_would_train_it(text: str) -> None:
    with pytest.raises(InvalidConfig, match="not in the catalogue") as caught:
        planned(text, model="tiny")
    assert caught.value.hint == (
        "Other models are trained by --backend local and, with --any-model, by a `synth-ai serve`."
    )


def test_hints_about_keys_and_models_stand_side_by_side() -> None:
    with pytest.raises(InvalidConfig) as caught:
        planned(SFT + "batch_sise = 1\n", model="tiny")
    assert caught.value.hint.startswith("If the unknown keys are meant, give --allow-unknown. Other models are ")


# -- task URL


def test_the_option_comes_before_the_config_and_both_are_told() -> None:
    plan = planned(RL, task_url=" http://localhost:8001/ ")
    assert plan.task_url == TaskUrl("http://localhost:8001/", "--task-url")
    assert plan.notes == ("task app http://localhost:8001/ (--task-url), not https://task.example (train.toml:7)",)


def test_the_same_address_twice_is_nothing_to_tell() -> None:
    assert planned(RL, task_url="https://task.example/").notes == ()


def test_a_faulty_address_that_is_not_used_is_no_problem_and_not_repeated() -> None:
    plan = planned(RL.replace("https://task.example", "https://me:pw@task.example"), task_url="http://t")
    assert plan.notes == ("task app http://t (--task-url), not the one (train.toml:7)",)


def test_an_empty_address_counts_as_none() -> None:
    assert planned(RL.replace("https://task.example", " ")).task_url is None


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("task.example", "does not begin with http:// or https://"),
        ("ftp://task.example", "does not begin with http:// or https://"),
        ("https://me:secret@task.example", "take the user name and password out"),
        ("https://secret@task.example", "take the user name and password out"),
        ("https://task.example/?key=secret", "has a query or a fragment"),
        ("https://task.example#x", "has a query or a fragment"),
        ("https://", "has no host"),
        ("https:///path", "has no host"),
        ("https://task .example", "has a blank"),
        ("https://task.example:port", "has a host or a port that cannot be read"),
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(url: str, fault: str) -> None:
    problem = refused(RL.replace("https://task.example", url))
    assert problem.startswith("train.toml:7: services.task_url: ")
    assert fault in problem
    assert "secret" not in problem
    with pytest.raises(UsageError, match=r"^--task-url: "):
        planned(RL, task_url=url)


@pytest.mark.parametrize("url", ["HTTPS://task.example", "http://127.0.0.1:8001/a/b", "http://[::1]:8001", "http://t"])
def test_addresses_of_every_usual_form_are_taken(url: str) -> None:
    plan = planned(RL, task_url=url)
    assert plan.task_url is not None
    assert plan.task_url.url == url


def test_the_environment_gives_the_address_when_nobody_else_does() -> None:
    plan = settle_task_url(planned(RL.replace("https://task.example", "")), " http://t ", "TASK_APP_URL in ./.env")
    assert plan.task_url == TaskUrl("http://t", "TASK_APP_URL in ./.env")


def test_an_address_in_the_environment_that_is_not_used_is_told() -> None:
    plan = settle_task_url(planned(RL), "http://t", "TASK_APP_URL")
    assert plan.notes == ("task app https://task.example (train.toml:7), not http://t (TASK_APP_URL)",)


@pytest.mark.parametrize("url", [None, " ", "https://task.example/"])
def test_an_environment_that_says_nothing_else_changes_nothing(url: str | None) -> None:
    plan = planned(RL)
    assert settle_task_url(plan, url, "TASK_APP_URL") == plan


def test_no_address_anywhere_is_an_error_that_names_all_three_ways() -> None:
    plan = planned(RL.replace('task_url = "https://task.example"', ""))
    with pytest.raises(InvalidConfig) as caught:
        settle_task_url(plan, "", "TASK_APP_URL")
    assert str(caught.value) == "train.toml:6: services.task_url: missing: no task app is named"
    assert all(way in caught.value.hint for way in ("--task-url", "here", "TASK_APP_URL"))


def test_a_faulty_address_in_the_environment_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"^TASK_APP_URL: the address does not begin with http"):
        settle_task_url(planned(RL.replace("https://task.example", "")), "task.example", "TASK_APP_URL")


def test_an_sft_plan_needs_no_address() -> None:
    plan = planned(SFT)
    assert settle_task_url(plan, None, "") is plan


# -- datasets

TREE = {"/repo/configs/data/a.jsonl": b"beside", "/repo/data/a.jsonl": b"decoy", "/repo/rows.jsonl": b"rows"}


def test_a_path_of_the_config_is_looked_up_beside_it_and_a_decoy_is_told() -> None:
    plan = planned(SFT.replace("rows.jsonl", "data/a.jsonl"), at="configs/sft.toml", files=TREE)
    assert plan.dataset == Path("/repo/configs/data/a.jsonl")
    assert plan.notes == (
        "job.data: using /repo/configs/data/a.jsonl, beside the config, not /repo/data/a.jsonl,"
        " which is another file of that name in the working directory",
    )


def test_a_path_that_is_only_in_the_working_directory_is_used_and_told() -> None:
    plan = planned(SFT, at="configs/sft.toml", files=TREE)
    assert plan.dataset == Path("/repo/rows.jsonl")
    assert plan.notes == (
        "job.data: using /repo/rows.jsonl, in the working directory;"
        " beside the config, at /repo/configs/rows.jsonl, there is none",
    )


@pytest.mark.parametrize("given", [{"dataset": "data/a.jsonl"}, {"sets": ('job.data="data/a.jsonl"',)}])
def test_a_path_of_the_command_line_is_looked_up_in_the_working_directory(given: dict[str, Any]) -> None:
    plan = planned(SFT, at="configs/sft.toml", files=TREE, **given)
    assert plan.dataset == Path("/repo/data/a.jsonl")
    assert plan.notes == ()


def test_data_path_is_looked_at_when_data_is_absent() -> None:
    assert planned(SFT.replace("data =", "data_path =")).dataset == Path("/repo/rows.jsonl")


def test_a_missing_file_names_every_place_that_was_looked_at() -> None:
    text = SFT.replace("rows.jsonl", "none.jsonl") + '[data]\nvalidation_path = "gone.jsonl"\n'
    assert refused(text, at="configs/sft.toml", files={}) == (
        "configs/sft.toml:8: job.data: there is no such file;"
        " looked for /repo/configs/none.jsonl, then for /repo/none.jsonl\n"
        "configs/sft.toml:14: data.validation_path: there is no such file;"
        " looked for /repo/configs/gone.jsonl, then for /repo/gone.jsonl"
    )
    assert refused(SFT, dataset="x.jsonl", files={}) == "--dataset: there is no such file; looked for /repo/x.jsonl"


def test_a_misspelt_file_name_is_told_the_near_one() -> None:
    assert refused(SFT.replace("rows", "rosw")).endswith("; did you mean /repo/rows.jsonl?")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (".", "/repo: is a directory, not a file. Name the JSONL file inside."),
        ("empty.jsonl", "/repo/empty.jsonl: no examples: the file is empty"),
        ("locked.jsonl", "/repo/locked.jsonl: cannot be read: Permission denied"),
    ],
)
def test_a_dataset_that_cannot_be_one_is_refused_where_it_is_named(name: str, problem: str) -> None:
    files = {"/repo/empty.jsonl": b"", "/repo/locked.jsonl": b"rows"}
    text = SFT.replace("rows.jsonl", name)
    assert refused(text, files=files, locked=("locked.jsonl",)) == f"train.toml:8: job.data: {problem}"
    assert refused(SFT, files=files, locked=("locked.jsonl",), dataset=name) == f"--dataset: {problem}"


def test_standard_input_is_no_dataset() -> None:
    assert refused(SFT, dataset="-") == (
        "--dataset: standard input cannot be a dataset: it is read more than once; write it to a file and name that"
    )


def test_no_dataset_is_an_error_that_names_the_option() -> None:
    text = SFT.replace('data = "rows.jsonl"', "")
    assert refused(text) == "train.toml:6: job.data: missing: name a JSONL file, or give --dataset"


@pytest.mark.parametrize("key", ["data", "data_path"])
def test_a_dataset_of_the_wrong_type_is_only_said_to_be_that(key: str) -> None:
    assert "missing" not in refused(SFT.replace('data = "rows.jsonl"', f"{key} = 3"))


# -- overrides


def test_an_override_is_applied_before_the_check_and_is_the_place_of_its_problems() -> None:
    assert refused(SFT, sets=("hyperparameters.n_epochs = 0",)) == (
        "--set hyperparameters.n_epochs=0: hyperparameters.n_epochs: must be at least 1, not 0"
    )


def test_the_last_of_several_overrides_counts() -> None:
    plan = planned(SFT, sets=("hyperparameters.n_epochs=2", "hyperparameters={n_epochs=3}", "lora.r=8"))
    assert plan.table["hyperparameters"] == {"n_epochs": 3}
    assert plan.table["lora"] == {"r": 8}


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        (
            "hyperparameters.n_epoch=3",
            "hyperparameters.n_epoch: unknown key; it looks like n_epochs, which is there as well",
        ),
        (
            "hyperparameter.n_epochs=3",
            "hyperparameter: unknown section; it looks like hyperparameters, which is there as well",
        ),
        ("n_epochs=3", "n_epochs: unknown key; it belongs to [hyperparameters]"),
        ("job.wibble.x=3", "job.wibble: unknown key"),
    ],
)
def test_an_unknown_key_of_an_override_is_an_error_of_the_option(setting: str, problem: str) -> None:
    assert refused(SFT, sets=(setting,)) == f"--set {setting}: {problem}"
    assert warned(planned(SFT, sets=(setting,), unknown_keys=UnknownKeys.WARNINGS)) == [
        f"--set {setting}: {problem}; hosted backends do not get it"
    ]


def test_an_unknown_section_of_the_file_stays_its_own_when_an_override_adds_to_it() -> None:
    assert warned(planned(SFT + "[wibble]\nx = 1\n", sets=("wibble.y=2",))) == [
        "train.toml:13: wibble: unknown section; hosted backends do not get it"
    ]


def test_an_override_heals_what_it_replaces() -> None:
    plan = planned(SFT.replace("n_epochs = 1", "n_epochs = 0"), sets=("hyperparameters.n_epochs=2",))
    assert plan.table["hyperparameters"]["n_epochs"] == 2


def test_an_override_inside_what_is_no_table_makes_no_sense() -> None:
    with pytest.raises(UsageError, match=r"^--set job\.model\.x=1: job\.model is not a table in this config$"):
        planned(SFT, sets=("job.model.x=1",))


def test_an_override_can_decide_the_kind() -> None:
    assert planned("[job]\n", sets=('type="sft"',), model="Qwen/Qwen3-4B", dataset="rows.jsonl").kind is Kind.SFT


# -- all problems at once


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = """\
[algorithm]
type = "offline"
method = "sft"
variety = "qlora"

[job]
model = "Qwen/Qwen3-4X"

[hyperparameters]
n_epoch = 3
batch_size = "1"

[hyperparametres]
n_epochs = 1
"""
    with pytest.raises(InvalidConfig) as caught:
        planned(text)
    assert str(caught.value).splitlines() == [
        'train.toml:4: algorithm.variety: "qlora" is not trained by SFT jobs; write variety = "lora", and'
        " use_qlora = true in [training]",
        "train.toml:6: job.data: missing: name a JSONL file, or give --dataset",
        'train.toml:7: job.model: "Qwen/Qwen3-4X" is not in the catalogue; did you mean Qwen/Qwen3-4B?'
        " All are listed by `synth-ai config models`",
        "train.toml:10: hyperparameters.n_epoch: unknown key; did you mean n_epochs?",
        'train.toml:11: hyperparameters.batch_size: expected a whole number, got the text "1"; write 1 without quotes',
        "warning: train.toml:13: hyperparametres: unknown section; it looks like hyperparameters, which is there as"
        " well; hosted backends do not get it",
    ]
    assert len(caught.value.problems) == 6
    assert "--allow-unknown" in caught.value.hint


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("[job]", "[jobs]", "jobs: unknown section; did you mean job?"),
        ("model =", "modle =", "job.modle: unknown key; did you mean model?"),
        ("data =", "daat =", "job.daat: unknown key; did you mean data?"),
    ],
)
def test_what_stands_under_a_misspelt_name_is_not_said_to_be_missing(right: str, wrong: str, problem: str) -> None:
    assert right in SFT
    assert [line.partition(": ")[2] for line in refused(SFT.replace(right, wrong)).splitlines()] == [problem]


def test_what_is_missing_is_said_when_misspelt_names_are_let_through() -> None:
    said = refused(SFT.replace("[job]", "[jobs]"), unknown_keys=UnknownKeys.WARNINGS)
    assert "job.model: missing" in said
    assert "job.data: missing" in said


def test_the_hint_about_unknown_keys_is_only_given_when_one_is_refused() -> None:
    with pytest.raises(InvalidConfig) as caught:
        planned(SFT + "world_size = 8\nbatch_size = 0\n")
    assert caught.value.hint == ""


def test_the_unknown_keys_of_a_good_config_are_warnings_of_its_plan() -> None:
    assert warned(planned(SFT + "world_size = 8\n")) == [
        "train.toml:13: hyperparameters.world_size: unknown key; hosted backends do not get it"
    ]
    assert "unknown key" in refused(SFT + "world_size = 8\n", unknown_keys=UnknownKeys.ERRORS)


def test_what_is_said_never_breaks_a_line() -> None:
    assert len(refused(SFT.replace("Qwen/Qwen3-4B", "a\\nb" + "c" * 200)).splitlines()) == 1


# -- keys in configs


def test_the_value_of_a_key_is_found_wherever_it_stands() -> None:
    text = SFT + '[metadata]\nnotes = ["x", "my key is sk-0123456789abcdef"]\n"sk-0123456789abcdef" = 1\n'
    problems = secrets_in(planned(text), [Secret("sk-0123456789abcdef"), Secret("")])
    assert [problem.place for problem in problems] == [Place("train.toml", 14), Place("train.toml", 15)]
    assert problems[0].key == "metadata.notes[1]"
    assert "sk-0123" not in "".join(map(str, problems))


def test_the_value_of_a_key_on_the_command_line_is_not_repeated() -> None:
    plan = planned(SFT, sets=('metadata.key="sk-0123456789abcdef"',))
    (problem,) = secrets_in(plan, [Secret("sk-0123456789abcdef")])
    assert "sk-0123" not in str(problem)
    assert str(problem).startswith("--set metadata.key=...: metadata.key: ")


def test_a_short_secret_is_only_found_where_it_is_the_whole_text() -> None:
    plan = planned(SFT + '[metadata]\na = "test"\nb = "latest"\n')
    assert [problem.key for problem in secrets_in(plan, [Secret("test")])] == ["metadata.a"]


def test_a_config_without_keys_has_no_problem() -> None:
    assert secrets_in(planned(SFT), [Secret("sk-0123456789abcdef")]) == ()

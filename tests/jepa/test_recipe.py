"""Recipes: the shipped ones load, and what can't be is refused in one line that names the key."""

import pytest

from so101walk.errors import ConfigError, UsageError
from so101walk.jepa.recipe import LejepaRecipe, LewmRecipe, load_recipe, recipe_names


def test_the_shipped_recipes_are_the_two_kinds():
    assert {"lejepa", "lewm"} <= set(recipe_names())
    assert isinstance(load_recipe("lejepa"), LejepaRecipe)
    lewm = load_recipe("lewm")
    assert isinstance(lewm, LewmRecipe)
    assert (lewm.windows.history, lewm.sigreg.weight) == (3, 0.09)


def test_a_file_wins_over_a_name_and_defaults_fill_the_rest(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('kind = "lejepa"\n[pairs]\nlags = [2]\n')
    recipe = load_recipe(path)
    assert isinstance(recipe, LejepaRecipe)
    assert recipe.pairs.lags == (2.0,)
    assert recipe.encoder.channels == (48, 96, 192)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kind = "lejpa"', "did you mean 'lejepa'"),
        ("", "kind is None"),
        ('kind = "lejepa"\nlatent = 6', "unknown key 'latent'"),
        ('kind = "lejepa"\n[sigreg]\nweight = 0', "collapses"),
        ('kind = "lejepa"\n[sigreg]\nweight = 1.5', "below 1"),
        ('kind = "lejepa"\n[frames]\nsize_px = 50', "multiple of 16"),
        ('kind = "lejepa"\n[frames]\nviews = "stak"', "did you mean 'stack'"),
        ('kind = "lejepa"\n[pairs]\nlags = []', "lags is empty"),
        ('kind = "lejepa"\n[pairs]\nunit = "waypoint"\nlags = [0.5]', "whole numbers"),
        ('kind = "lejepa"\n[optimiser]\nsteps = 10\nwarmup_steps = 20', "warmup_steps is 20"),
        ('kind = "lejepa"\n[optimiser]\nlr = "fast"', "a number"),
        ('kind = "lejepa"\n[stop]\nvalidation = 1.0', "below 1"),
        ('kind = "lejepa"\n[encoder]\nchannels = []', "1 to 5"),
        ('kind = "lewm"\n[windows]\nhistory = 0', "history is 0"),
        ('kind = "lewm"\n[predictor]\nheads = 0', "heads is 0"),
        ('kind = "lejepa"\n[augment]\nshift_px = 99', "0 to 16"),
    ],
)
def test_what_cannot_be_is_refused_naming_file_and_key(tmp_path, text, words):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as e:
        load_recipe(path)
    assert str(path) in str(e.value)
    assert len(str(e.value).splitlines()) == 1


def test_a_recipe_that_is_not_there_is_named_with_its_nearest():
    with pytest.raises(UsageError, match="did you mean 'lejepa'"):
        load_recipe("lejpa")
    with pytest.raises(UsageError, match="does not exist"):
        load_recipe("no/such.toml")

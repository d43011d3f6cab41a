"""Query-level balancing between language-model instances: predictors, so far."""

from importlib.metadata import version

from rbalance.embedder import Embedder
from rbalance.errors import (
    ArtefactError,
    ConfigError,
    MissingExtraError,
    RbalanceError,
    TrainingError,
)
from rbalance.evaluation import Evaluation, evaluate
from rbalance.knn import KnnFit, KnnPredictor, fit_knn
from rbalance.labelled_tables import read_labelled
from rbalance.predictions import Predictions, Predictor, Prior
from rbalance.predictor_artefact import load_predictor, load_prior, save_predictor
from rbalance.records import (
    LabelledPrompt,
    ModelSummary,
    RecordError,
    Summary,
    read_records,
    summarise,
)
from rbalance.sentence_embedder import SentenceEmbedder
from rbalance.training_set import TrainingSet, held_out

__version__ = version("rbalance")

__all__ = [
    "ArtefactError",
    "ConfigError",
    "Embedder",
    "Evaluation",
    "KnnFit",
    "KnnPredictor",
    "LabelledPrompt",
    "MissingExtraError",
    "ModelSummary",
    "Predictions",
    "Predictor",
    "Prior",
    "RbalanceError",
    "RecordError",
    "SentenceEmbedder",
    "Summary",
    "TrainingError",
    "TrainingSet",
    "__version__",
    "evaluate",
    "fit_knn",
    "held_out",
    "load_predictor",
    "load_prior",
    "read_labelled",
    "read_records",
    "save_predictor",
    "summarise",
]

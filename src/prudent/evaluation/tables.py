"""What tables of estimates share: they read like a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import xarray


class EstimateTable:
    """Base class of results with a table that has a row for each estimator.

    Attributes
    ----------
    table : DataFrame
        The table.
    value : float
        What it is compared with: the mean reward of the log, or the value of a learned policy.
    confidence : float
        Confidence of the intervals.
    n : int
        Number of rows, slates or episodes.
    """

    table: pandas.DataFrame
    value: float
    confidence: float
    n: int

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a DataFrame with a row for each estimator.

        Returns
        -------
        DataFrame
            A copy of ``table``.

        Examples
        --------
        >>> from prudent import off_policy
        >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in "ab" * 200]
        >>> list(off_policy(log, "b").to_pandas().columns)
        ['estimate', 'low', 'high', 'ess']
        """
        return self.table.copy()

    def to_xarray(self) -> xarray.Dataset:
        """Return the table as a dataset.

        Returns
        -------
        xarray.Dataset
            The columns of the table; value, confidence and n as attributes.
        """
        return self.table.to_xarray().assign_attrs(value=self.value, confidence=self.confidence, n=self.n)

    @property
    def loc(self) -> Any:
        """Rows and columns by name, as for a DataFrame."""
        return self.table.loc

    @property
    def index(self) -> Any:
        """Names of the estimators."""
        return self.table.index

    @property
    def columns(self) -> Any:
        """Names of the columns."""
        return self.table.columns

    def __getitem__(self, name: str) -> Any:
        """Return the row of an estimator, or a column."""
        return self.table.loc[name] if name in self.table.index else self.table[name]

    def __len__(self) -> int:
        return len(self.table)

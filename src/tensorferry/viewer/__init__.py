"""The page: weights, datasets and models in a browser.

    server.py     HTTP on loopback: who may ask, and how answers are sent
    api.py        each question of the page, answered by an operation
    listing.py    the questions that come first: files, and their tensors or columns
    tensors.py, rows.py, modelling.py, comparing.py    all others
    files.py      the files that are shown, opened once
    jobs.py       work that takes longer than a question may, with its progress
    queries.py    the parameters of a question, checked
    answers.py    JSON and arrays as bytes
    static.py     the same page as one file
    opening.py    `tensorferry.view`, and the frame in a notebook
    page/         HTML, CSS and ES modules, as the browser gets them

What there is to find out about files is in `tensorferry.operations`: nothing here reads a tensor.
"""
